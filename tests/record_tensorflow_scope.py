"""Record what ``tensorflow_scope`` trains to under real Horovod: ``python record_tensorflow_scope.py``.

``horovodrun`` must be on PATH, with its Python beside it, which has TensorFlow 2.15 and its Keras.
"""

import ast
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tensorflow_workers import FIXED

PROGRAMS = Path(__file__).resolve().parent / "tensorflow_scope"
ANSWERS = PROGRAMS / "horovod.json"
_LINE = re.compile(r"^\[(\d+)\]<stdout>:TRACE (\S+) (.*)$", re.MULTILINE)


def answers(program: Path, horovodrun: Path) -> dict[str, dict[str, object]]:
    """The values that each rank prints, by its number."""
    command = [horovodrun, "-np", "2", "--gloo", "-H", "localhost:2", horovodrun.with_name("python"), program]
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": str(horovodrun.parent) + ":/usr/bin:/bin", **FIXED}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, dict[str, object]] = {}
    for rank, name, value in _LINE.findall(done.stdout):
        found.setdefault(rank, {})[name] = ast.literal_eval(value)
    return found


def main() -> None:
    """Record all programs."""
    horovodrun = shutil.which("horovodrun")
    if horovodrun is None:
        raise SystemExit("horovodrun is not on PATH")
    found = {path.stem: answers(path, Path(horovodrun)) for path in sorted(PROGRAMS.glob("*.py"))}
    ANSWERS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
