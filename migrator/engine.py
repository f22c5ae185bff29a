"""A run: which files there are, which programs they make, and their migration, side by side where that pays."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from migrator.config import Settings
from migrator.files import MENTIONS, Found, display, explain, find, mentions_horovod, read, scan
from migrator.notices import OTHER_KIND
from migrator.result import Diagnostic, FileResult, Result

if TYPE_CHECKING:
    from migrator.reading import Input
    from migrator.transform import Outcome

Progress = Callable[[int, int], None]
_STACK = 512 * 1024 * 1024
_WORTH_A_PROCESS = 100_000


def migrate(paths: Sequence[Path], settings: Settings, progress: Progress | None = None) -> Result:
    """Migrate every program under ``paths``; ``progress`` hears of programs done and programs in all.

    Raises SettingsError for an exclude pattern that is none. Nothing is written.
    """
    found = find(paths, settings)
    using: dict[Path, bytes] = {}
    failed = [FileResult(display(problem.path), "failed", problem.reason) for problem in found.problems]
    for path, data in scan(found.files):
        if isinstance(data, OSError):
            failed.append(FileResult(display(path), "failed", explain(data)))
        else:
            using[path] = data
    jobs = _programs(using)
    outcomes = _run(jobs, settings, progress or (lambda done, total: None))
    return _assemble(found, using, failed, outcomes)


def migrate_text(name: str, data: bytes, settings: Settings) -> Result:
    """Migrate one file given as bytes; nothing else is read."""
    if not mentions_horovod(data):
        return Result(files=(FileResult(name, "unchanged", before=data, after=data),))
    from migrator.reading import Input

    outcome = _with_deep_stack([Input(Path(name).absolute(), name, data)], settings)
    return Result(outcome.findings, outcome.files, outcome.programs)


def _programs(using: Mapping[Path, bytes]) -> list[list[Input]]:
    if not using:
        return []
    from migrator.program import group
    from migrator.reading import Input

    def inputs(files: Sequence[Path], given: bool) -> Iterator[Input]:
        for file in files:
            yield Input(file, display(file), using.get(file) or _content(file) or b"", given)

    programs = group(using, _content, mentions_horovod)
    return [[*inputs(p.files, True), *inputs(p.context, False)] for p in programs]


def _content(path: Path) -> bytes | None:
    try:
        return read(path)
    except OSError:
        return None


def _run(jobs: Sequence[list[Input]], settings: Settings, progress: Progress) -> list[Outcome]:
    size = sum(len(given.data) for job in jobs for given in job)
    workers = min(settings.jobs or os.cpu_count() or 1, len(jobs), 1 + size // _WORTH_A_PROCESS)
    if workers > 1:
        return _side_by_side(jobs, settings, progress, workers)
    outcomes: list[Outcome] = []
    for job in jobs:
        outcomes.append(_with_deep_stack(job, settings))
        progress(len(outcomes), len(jobs))
    return outcomes


def _with_deep_stack(job: list[Input], settings: Settings) -> Outcome:
    """Run in a thread whose stack holds any nesting that Python itself accepts."""
    from migrator.transform import migrate_program

    made: list[Outcome | BaseException] = []

    def run() -> None:
        try:
            made.append(migrate_program(job, settings))
        except BaseException as error:
            made.append(error)

    before, limit = threading.stack_size(_STACK), sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
        sys.setrecursionlimit(limit)
    if isinstance(made[0], Exception):
        return _broken(job, f"internal error: {type(made[0]).__name__}: {made[0]}")
    if isinstance(made[0], BaseException):
        raise made[0]
    return made[0]


def _broken(job: Sequence[Input], reason: str) -> Outcome:
    """The outcome of a program on which this tool itself failed: its files stay, other programs go on."""
    from migrator.transform import Outcome

    return Outcome((), tuple(FileResult(given.path, "failed", reason, given.data, given.data) for given in job))


def _side_by_side(jobs: Sequence[list[Input]], settings: Settings, progress: Progress, workers: int) -> list[Outcome]:
    """The outcomes in the order of ``jobs``; largest programs start first."""
    import migrator.transform  # noqa: F401  once, before the workers are forked

    outcomes: dict[int, Outcome] = {}
    order = sorted(range(len(jobs)), key=lambda n: -sum(len(given.data) for given in jobs[n]))
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        waiting: dict[Future[Outcome], int] = {pool.submit(_with_deep_stack, jobs[n], settings): n for n in order}
        for future in as_completed(waiting):
            try:
                outcomes[waiting[future]] = future.result()
            except BrokenProcessPool:
                continue
            progress(len(outcomes), len(jobs))
    return [outcomes[n] if n in outcomes else _alone(jobs[n], settings) for n in range(len(jobs))]


def _alone(job: list[Input], settings: Settings) -> Outcome:
    """A program that may have brought its worker down, tried again in a process of its own."""
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
            return pool.submit(_with_deep_stack, job, settings).result()
    except BrokenProcessPool:
        return _broken(job, "the parser crashed on a file of this program")


def _assemble(
    found: Found, using: Mapping[Path, bytes], failed: Sequence[FileResult], outcomes: Sequence[Outcome]
) -> Result:
    files = {file.path: file for outcome in outcomes for file in outcome.files}
    files |= {file.path: file for file in failed}
    rest = (FileResult(display(path), "unchanged") for path in found.files if path not in using)
    files = {file.path: file for file in rest} | files
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    programs = [program for outcome in outcomes for program in outcome.programs]
    findings += _other_kinds(found)
    return Result(
        tuple(sorted(findings)),
        tuple(files[path] for path in sorted(files)),
        tuple(sorted(programs, key=lambda program: program.name)),
    )


def _other_kinds(found: Found) -> Iterator[Diagnostic]:
    """Files that mention Horovod and that this version reads, but does not rewrite."""
    for path, data in scan(found.others):
        if isinstance(data, bytes) and (match := MENTIONS.search(data)):
            line = data.count(b"\n", 0, match.start()) + 1
            column = match.start() - (data.rfind(b"\n", 0, match.start()) + 1) + 1
            message = "mentions Horovod; only Python modules are rewritten"
            yield Diagnostic(display(path), line, column, OTHER_KIND, "note", "", message, "")
