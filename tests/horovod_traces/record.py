"""Record what real Horovod prints for the programs in this folder: ``python record.py [NAME ...]``.

``horovodrun`` must be on PATH, with its Python beside it. Every program runs twice on two ranks; a value that is not
the same both times, or an exit status other than 0, ends the recording.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRACES = HERE / "traces.json"
RANKS = 2
VERSIONS = "import horovod, torch; print(horovod.__version__, torch.__version__)"

Trace = dict[str, dict[str, str]]


def parse(text: str) -> dict[str, str]:
    """Return a rank's ``TRACE key value`` lines by key; horovodrun puts ``[rank]<stdout>:`` before each."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        _, mark, pair = line.partition("<stdout>:TRACE ")
        key, _, value = pair.partition(" ")
        if mark and values.setdefault(key, value) != value:
            raise SystemExit(f"{key} was printed twice")
    if not values:
        raise SystemExit("a rank printed no TRACE line")
    return values


def run(program: Path, horovodrun: str, python: str) -> Trace:
    """Run a program once, in an empty folder, and return each rank's values."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        work = Path(folder, "work")
        work.mkdir()
        launch = [horovodrun, "-np", str(RANKS), "--gloo", "-H", f"localhost:{RANKS}", "--output-filename", str(output)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*launch, python, str(program)], cwd=work, env=environment, capture_output=True, text=True, timeout=120
        )
        logs = {str(rank): output / f"rank.{rank}" for rank in range(RANKS)}
        if done.returncode:
            errors = [path.read_text() for log in logs.values() for path in sorted(log.glob("std*"))]
            raise SystemExit("\n".join([f"{program.name} failed", done.stdout, done.stderr, *errors]))
        return {rank: parse((log / "stdout").read_text()) for rank, log in logs.items()}


def main(names: list[str]) -> None:
    """Record the named programs, or all of them."""
    horovodrun = shutil.which("horovodrun")
    if horovodrun is None:
        raise SystemExit("horovodrun is not on PATH")
    python = str(Path(horovodrun).with_name("python"))
    versions = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True).stdout.split()
    programs: dict[str, Trace] = json.loads(TRACES.read_text())["programs"] if names else {}
    for path in sorted((HERE / "programs").glob("*.py")):
        if names and path.stem not in names:
            continue
        print("recording", path.stem)
        first, second = (run(path, horovodrun, python) for _ in range(2))
        if first != second:
            raise SystemExit(f"{path.stem} is not stable: {first} then {second}")
        programs[path.stem] = first
    head = {"horovod": versions[0], "torch": versions[1], "ranks": RANKS}
    TRACES.write_text(json.dumps({**head, "programs": dict(sorted(programs.items()))}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
