"""Record what real Horovod prints for the programs here: ``python record.py [NAME ...]``.

``horovodrun`` must be on PATH, with its Python beside it. Every program runs twice; a value that is not the same both
times, or an exit status other than 0, ends the recording. Programs of ``fixtures/pitfalls`` share one start of
Horovod. So do the cases of ``gradients.py``; those for which Horovod is no reference run alone, and what came out is
kept as it was.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gradients import CASES, Case
from pitfalls import PITFALLS

HERE = Path(__file__).resolve().parent
TRACES = HERE / "traces.json"
GRADIENTS = HERE / "gradients.json"
RECORDED_PITFALLS = HERE / "pitfalls.json"
TOGETHER = HERE / "one_after_another.py"
RANKS = 2
ERROR = re.compile(r"<stderr>:(\w+Error: .*)")
VERSIONS = "import horovod, torch; print(horovod.__version__, torch.__version__)"

Trace = dict[str, dict[str, str]]


class Program(Protocol):
    """What can run together with others."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def ranks(self) -> int: ...


def parse(text: str, mark: str = "<stdout>:TRACE ") -> dict[str, str]:
    """Return a rank's ``TRACE key value`` lines by key; horovodrun puts ``[rank]<stdout>:`` before each."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        _, found, pair = line.partition(mark)
        key, _, value = pair.partition(" ")
        if found and values.setdefault(key, value) != value:
            raise SystemExit(f"{key} was printed twice")
    if not values:
        raise SystemExit("a rank printed no TRACE line")
    return values


def launch(arguments: Sequence[str], folder: Path, ranks: int) -> tuple[int, dict[str, str], str]:
    """Run a script in an empty folder; return the exit status, each rank's output and everybody's errors."""
    horovodrun = shutil.which("horovodrun")
    if horovodrun is None:
        raise SystemExit("horovodrun is not on PATH")
    output, work = folder / "output", folder / "work"
    work.mkdir()
    start = [horovodrun, "-np", str(ranks), "--gloo", "-H", f"localhost:{ranks}"]
    if ranks > 1:  # horovodrun fails otherwise
        start += ["--output-filename", str(output)]
    done = subprocess.run(
        [*start, str(Path(horovodrun).with_name("python")), *arguments],
        cwd=work,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    errors = [path.read_text() for path in sorted(output.glob("rank.*/std*"))]
    outputs = {str(rank): (output / f"rank.{rank}" / "stdout").read_text() for rank in range(ranks) if ranks > 1}
    return done.returncode, outputs or {"0": done.stdout}, "\n".join([done.stdout, done.stderr, *errors])


def run(program: Path, ranks: int = RANKS) -> Trace:
    """Run a program once and return each rank's values."""
    with tempfile.TemporaryDirectory() as folder:
        status, outputs, errors = launch([str(program)], Path(folder), ranks)
        if status:
            raise SystemExit(f"{program.name} failed\n{errors}")
        return {rank: parse(text) for rank, text in outputs.items()}


def run_together(cases: Sequence[Program], ranks: int) -> dict[str, Trace]:
    """Run the cases for ``ranks`` ranks under one Horovod and return each one's values."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = [case for case in cases if case.ranks == ranks]
        programs = [folder / f"{case.name}.py" for case in chosen]
        for case, path in zip(chosen, programs, strict=True):
            path.write_text(case.source, "utf-8")
        status, _, errors = launch([str(TOGETHER), name, *map(str, programs)], folder, ranks)
        if status:
            raise SystemExit(f"a program failed\n{errors}")
        return {
            case.name: {
                str(rank): parse((folder / f"{case.name}.{rank}").read_text(), "TRACE ") for rank in range(ranks)
            }
            for case in chosen
        }


def run_unstable(case: Case) -> Trace | str:
    """Run a case for which Horovod is no reference: the values, or the last line of the error that ended it."""
    with tempfile.TemporaryDirectory() as name:
        program = Path(name, f"{case.name}.py")
        program.write_text(case.source, "utf-8")
        status, outputs, errors = launch([str(program)], Path(name), case.ranks)
        if status:
            return next(iter(ERROR.findall(errors)), f"exit status {status}")
        return {rank: parse(text) for rank, text in outputs.items()}


def run_twice(programs: Sequence[Program]) -> dict[str, Trace]:
    """Run the programs, together and twice; return each one's values."""
    known: dict[str, Trace] = {}
    for ranks in sorted({program.ranks for program in programs}):
        print("recording", sum(program.ranks == ranks for program in programs), "programs on", ranks, "ranks")
        first, second = (run_together(programs, ranks) for _ in range(2))
        if different := [name for name in first if first[name] != second[name]]:
            raise SystemExit(f"not stable: {different}")
        known |= first
    return known


def record_pitfalls(names: Sequence[str]) -> None:
    """Record the named programs of ``fixtures/pitfalls``, or all of them."""
    wanted = [program for program in PITFALLS if not program.hangs and (not names or program.name in names)]
    known: dict[str, Trace] = json.loads(RECORDED_PITFALLS.read_text())["programs"] if names else {}
    known |= run_twice(wanted)
    RECORDED_PITFALLS.write_text(json.dumps({**versions(), "programs": dict(sorted(known.items()))}, indent=1) + "\n")


def record_gradients(names: Sequence[str]) -> None:
    """Record the named cases of ``gradients.py``, or all of them."""
    wanted = [case for case in CASES if not names or case.name in names]
    known: dict[str, object] = json.loads(GRADIENTS.read_text())["cases"] if names else {}
    known |= run_twice([case for case in wanted if not case.unstable])
    for case in wanted:
        if case.unstable:
            print("recording", case.name, "as it comes")
            known[case.name] = [run_unstable(case) for _ in range(2)]
    GRADIENTS.write_text(json.dumps({**versions(), "cases": dict(sorted(known.items()))}, indent=1) + "\n")


def record_programs(names: Sequence[str]) -> None:
    """Record the named programs of ``programs``, or all of them."""
    programs: dict[str, Trace] = json.loads(TRACES.read_text())["programs"] if names else {}
    for path in sorted((HERE / "programs").glob("*.py")):
        if names and path.stem not in names:
            continue
        print("recording", path.stem)
        first, second = (run(path) for _ in range(2))
        if first != second:
            raise SystemExit(f"{path.stem} is not stable: {first} then {second}")
        programs[path.stem] = first
    TRACES.write_text(
        json.dumps({**versions(), "ranks": RANKS, "programs": dict(sorted(programs.items()))}, indent=1) + "\n"
    )


def versions() -> dict[str, str]:
    """The versions that are recorded."""
    python = str(Path(shutil.which("horovodrun") or "").with_name("python"))
    found = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True).stdout.split()
    return {"horovod": found[0], "torch": found[1]}


def main(names: Sequence[str]) -> None:
    cases = [name for name in names if any(case.name == name for case in CASES)]
    found = [name for name in names if any(program.name == name for program in PITFALLS)]
    programs = [name for name in names if name not in cases and name not in found]
    if programs or not names:
        record_programs(programs)
    if cases or not names:
        record_gradients(cases)
    if found or not names:
        record_pitfalls(found)


if __name__ == "__main__":
    main(sys.argv[1:])
