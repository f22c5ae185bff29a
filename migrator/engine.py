"""A run: which files there are, which programs they make, and their migration, side by side where that pays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from migrator.config import Settings
from migrator.files import Found, display, explain, find, mentions_horovod, read, scan
from migrator.result import Diagnostic, FileResult, Result

if TYPE_CHECKING:
    from migrator.reading import Input
    from migrator.transform import Outcome

Progress = Callable[[int, int], None]
_NAMED = re.compile(rb"(?i:horovod)|\bhvd\.|\bHorovodRunner\b|OMPI_COMM_WORLD_")


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
    jobs = _programs(using, found.files)
    outcomes = list(_run(jobs, settings, progress or (lambda done, total: None)))
    return _assemble(found, using, failed, outcomes)


def migrate_text(name: str, data: bytes, settings: Settings) -> Result:
    """Migrate one file given as bytes; nothing else is read."""
    if not mentions_horovod(data):
        return Result(files=(FileResult(name, "unchanged", before=data, after=data),))
    from migrator.reading import Input

    (outcome,) = _run([[Input(Path(name).absolute(), name, data)]], replace(settings, jobs=1), lambda done, total: None)
    return Result(outcome.findings, outcome.files, outcome.programs)


def _programs(using: Mapping[Path, bytes], files: Sequence[Path]) -> list[list[Input]]:
    if not using:
        return []
    from migrator.program import group, related
    from migrator.reading import Input

    def inputs(files: Sequence[Path], given: bool) -> Iterator[Input]:
        for file in files:
            yield Input(file, display(file), using.get(file) or _content(file) or b"", given)

    using = {**using, **related(using, files, _content)}
    programs = group(using, _content, mentions_horovod)
    return [[*inputs(p.files, True), *inputs(p.context, False)] for p in programs]


def _content(path: Path) -> bytes | None:
    try:
        return read(path)
    except OSError:
        return None


def _run(jobs: Sequence[list[Input]], settings: Settings, progress: Progress) -> Iterable[Outcome]:
    if not jobs:
        return ()
    from migrator.workers import run_all

    return run_all(jobs, settings, progress)


def _assemble(
    found: Found, using: Mapping[Path, bytes], failed: Sequence[FileResult], outcomes: Iterable[Outcome]
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
    """Files that name Horovod and that this version reads, but does not rewrite."""
    for path, data in scan(found.others):
        match = _NAMED.search(data) if isinstance(data, bytes) else None
        if match is not None and isinstance(data, bytes):
            from migrator.notices import OTHER_KIND

            line = data.count(b"\n", 0, match.start()) + 1
            column = match.start() - (data.rfind(b"\n", 0, match.start()) + 1) + 1
            message = "names Horovod; only Python modules are rewritten"
            yield Diagnostic(display(path), line, column, OTHER_KIND, "note", "", message, "")
