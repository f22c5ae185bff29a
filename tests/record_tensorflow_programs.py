"""Record ``tensorflow_programs`` under real Horovod: ``python record_tensorflow_programs.py [NAME ...]``.

``horovodrun`` must be on PATH, with its Python beside it, which has TensorFlow 2.15 and its Keras.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from record_parity_programs import RANKS, recorded, run
from tensorflow_workers import FIXED

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "tensorflow_programs"
TRACES = PROGRAMS / "traces"


def record(program: Path, horovodrun: Path) -> None:
    """Leave the program's trace in the folder of its name."""
    folder = TRACES / program.stem
    shutil.rmtree(folder, ignore_errors=True)
    start = [horovodrun, "-np", str(RANKS), "--gloo", "-H", f"localhost:{RANKS}"]
    with tempfile.TemporaryDirectory() as name:
        run([*start, *recorded(horovodrun.with_name("python"), folder, program)], Path(name), FIXED)


def main() -> None:
    """Record the programs that are named, or all."""
    horovodrun = shutil.which("horovodrun")
    if horovodrun is None:
        raise SystemExit("horovodrun is not on PATH")
    for program in sorted(PROGRAMS.glob("*.py")):
        if not sys.argv[1:] or program.stem in sys.argv[1:]:
            record(program, Path(horovodrun))


if __name__ == "__main__":
    main()
