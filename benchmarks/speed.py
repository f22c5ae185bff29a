"""What a run costs, as ratios taken in one session on one machine, against their limits.

    python benchmarks/speed.py [FOLDER]

Without FOLDER, files that use Horovod are generated. Exit code 1 when a limit is missed. Every figure is the least of
several runs: what disturbs a measurement only ever adds to it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpus import generate

RUNS = 5
FILES_WITH, FILES_WITHOUT = 60, 300
# As for an installed package, modules are compiled once: in the first round.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

TRIP = """
import sys, time
import libcst
from migrator.cli import main
before = time.process_time()
try:
    main(sys.argv[1:])
except SystemExit as done:
    assert done.code in (0, 1, 2), done.code
print(time.process_time() - before, file=sys.stderr)
"""

PARSE_AND_PRINT = """
import sys, time, pathlib
import libcst
paths = [pathlib.Path(line) for line in sys.stdin.read().splitlines()]
before = time.process_time()
for path in paths:
    try:
        libcst.parse_module(path.read_bytes()).code
    except (libcst.ParserSyntaxError, UnicodeDecodeError):
        pass
print(time.process_time() - before, file=sys.stderr)
"""

READ = """
import sys, time
paths = sys.stdin.read().splitlines()
before = time.process_time()
for path in paths:
    with open(path, "rb") as file:
        file.read()
print(time.process_time() - before, file=sys.stderr)
"""

COMMAND = "from migrator.cli import main; main()"

IMPORTED = """
import json, sys
from migrator.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@dataclass(frozen=True)
class Figure:
    """One ratio and its limit: the most it may be, or with ``at_least`` the least."""

    name: str
    value: float
    limit: float
    at_least: bool = False
    details: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the limit holds."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table; 1 when a limit is missed."""
    with tempfile.TemporaryDirectory() as scratch:
        using, plain = Path(scratch, "using"), Path(scratch, "plain")
        ENVIRONMENT["PYTHONPYCACHEPREFIX"] = str(Path(scratch, "bytecode"))
        generate(using, FILES_WITH, uses_horovod=True)
        generate(plain, FILES_WITHOUT, uses_horovod=False)
        if arguments:
            using = Path(arguments[0]).resolve()
        figures = [whole_trip(using), *without_horovod(plain)]
        if (os.cpu_count() or 1) > 1:
            figures.append(two_processes(using))
    for figure in figures:
        bound = "at least" if figure.at_least else "at most"
        verdict = "ok" if figure.is_met else "MISSED"
        print(f"{figure.name:58} {figure.value:6.2f}  {bound} {figure.limit:.2f}  {verdict:6}  {figure.details}")
    return 0 if all(figure.is_met for figure in figures) else 1


def whole_trip(folder: Path) -> Figure:
    """CPU of a preview, with its diff and findings, against LibCST's parse and print of the same files."""
    files = using_horovod(folder)
    names = "\n".join(map(str, files))
    trips, bare = alternately(
        lambda: seconds(TRIP, "--jobs", "1", *map(str, files)),
        lambda: seconds(PARSE_AND_PRINT, text=names),
    )
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    details = f"{trips:.2f} s / {bare:.2f} s for {len(files)} files, {lines} lines"
    return Figure("whole trip / LibCST's parse and print, CPU", trips / bare, 2.0, details=details)


def using_horovod(folder: Path) -> list[Path]:
    """The Python files below ``folder`` that mention Horovod."""
    return [path for path in sorted(folder.rglob("*.py")) if b"horovod" in path.read_bytes().lower()]


def without_horovod(folder: Path) -> list[Figure]:
    """A run over files that never mention Horovod, against importing click and reading the bytes."""
    files = "\n".join(map(str, sorted(folder.rglob("*.py"))))
    runs, click, read = alternately(
        lambda: process("-c", COMMAND, str(folder)),
        lambda: process("-c", "import click"),
        lambda: seconds(READ, text=files),
    )
    modules: list[str] = json.loads(python("-c", IMPORTED, str(folder)))
    details = f"({runs:.3f} s - {read:.3f} s reading) / {click:.3f} s for {len(files.splitlines())} files"
    return [
        Figure("no Horovod: run without reading / import click, CPU", (runs - read) / click, 2.0, details=details),
        Figure("no Horovod: modules of LibCST imported", sum(m.startswith("libcst") for m in modules), 0),
    ]


def two_processes(folder: Path) -> Figure:
    """Wall time with one process against two."""
    files = [str(path) for path in using_horovod(folder)]
    one, two = alternately(
        lambda: wall("-c", COMMAND, "--jobs", "1", *files),
        lambda: wall("-c", COMMAND, "--jobs", "2", *files),
    )
    details = f"{one:.2f} s / {two:.2f} s"
    return Figure("--jobs 1 / --jobs 2, wall time", one / two, 1.6, at_least=True, details=details)


def alternately(*measures: Callable[[], float]) -> list[float]:
    """The least that each of ``measures`` gives, taken in turns, so that all see the same machine."""
    rounds = [[measure() for measure in measures] for _ in range(RUNS)]
    return [min(each) for each in zip(*rounds, strict=True)]


def seconds(program: str, *arguments: str, text: str = "") -> float:
    """The CPU seconds that ``program`` measures and prints last on stderr."""
    return float(python("-c", program, *arguments, text=text).splitlines()[-1])


def process(*arguments: str) -> float:
    """The CPU seconds of a whole Python process and its children, start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def wall(*arguments: str) -> float:
    """The seconds that a Python process takes."""
    before = time.perf_counter()
    python(*arguments)
    return time.perf_counter() - before


def python(*arguments: str, text: str = "") -> str:
    """Run Python away from the sources and return what it prints on stderr."""
    done = subprocess.run(
        [sys.executable, *arguments],
        input=text,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=tempfile.gettempdir(),
        env=ENVIRONMENT,
        text=True,
        check=False,
    )
    # A preview that has something to show ends with 1, one that met files it cannot read with 2.
    if done.returncode not in (0, 1, 2) or "internal error" in done.stderr:
        raise SystemExit(f"exit code {done.returncode}: {done.stderr}")
    return done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
