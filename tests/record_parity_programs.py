"""Record the programs of ``parity_programs`` under real Horovod: ``python record_parity_programs.py [NAME ...]``.

``horovodrun`` must be on PATH, with its Python beside it. HorovodRunner, which there is on Databricks only, is stood in
for by one that calls the function in the ranks of horovodrun.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from migrator.parity import recorder
from migrator.parity.trace import Trace, read_trace

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "parity_programs"
TRACES = PROGRAMS / "traces"
SILENT = HERE / "silent_horovod"
ARITHMETIC = "arithmetic.txt"
RANKS = 2
SEED = 0


def record(program: Path, horovodrun: Path) -> None:
    """Leave the program's trace, what each rank printed, and its arithmetic in the folder of its name."""
    folder = TRACES / program.stem
    shutil.rmtree(folder, ignore_errors=True)
    python = horovodrun.with_name("python")
    start = [horovodrun, "-np", str(RANKS), "--gloo", "-H", f"localhost:{RANKS}", "--output-filename", "output"]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        shutil.copy(SILENT / "sparkdl.py", work)
        run([*start, *recorded(python, folder, program)], work, {"PYTHONPATH": name})
        for rank in range(RANKS):
            printed = (work / "output" / f"rank.{rank}" / "stdout").read_text("utf-8")
            if printed:
                (folder / f"rank{rank}.txt").write_text(printed.replace(f"[{rank}]<stdout>:", ""), "utf-8")
        for rank in range(RANKS):
            alone = {"PYTHONPATH": str(SILENT), "RANK": str(rank), "WORLD_SIZE": str(RANKS)}
            run(recorded(python, work / "silent", program), work, alone)
        (folder / ARITHMETIC).write_text(arithmetic(read_trace(work / "silent")) + "\n", "utf-8")


def recorded(python: Path, trace: Path, program: Path) -> list[str | Path]:
    """The command that runs and records a program."""
    return [python, recorder.__file__, "--output", trace, "--seed", str(SEED), "--deterministic", program]


def run(command: list[str | Path], work: Path, more: Mapping[str, str]) -> None:
    """Run a command with one thread for each rank, and with more in its environment."""
    fixed = {"OMP_NUM_THREADS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONHASHSEED": "0"}
    subprocess.run(command, cwd=work, env={**os.environ, **fixed, **more}, timeout=300, check=True)


def arithmetic(silent: Trace) -> str:
    """What a processor and a PyTorch make of the program on ranks that send nothing, as a digest."""
    digest = hashlib.sha256()
    for rank in silent.ranks:
        for step in rank.steps:
            tensors = (*step.gradients, *step.parameters)
            digest.update(repr([step.batch, step.losses, [each and each.digest for each in tensors]]).encode())
    return digest.hexdigest()[:16]


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
