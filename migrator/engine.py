"""A run: which files there are, which programs they make, and their migration, side by side where that pays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from migrator.config import Settings
from migrator.files import Found, display, explain, find, mentions_horovod, mentions_launcher, read, scan
from migrator.result import FileResult, Result
from migrator.textfiles.kinds import kind_of

if TYPE_CHECKING:
    from migrator.reading import Input
    from migrator.textfiles.surroundings import Moved
    from migrator.transform import Outcome

Progress = Callable[[int, int], None]


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
    return _assemble(found, using, failed, _with_documents(found, jobs, outcomes, settings, failed))


def migrate_text(name: str, data: bytes, settings: Settings) -> Result:
    """Migrate one file given as bytes; nothing else is read."""
    if not mentions_launcher(data):
        return Result(files=(FileResult(name, "unchanged", before=data, after=data),))
    if kind_of(name):
        from migrator.textfiles.migration import migrate_documents
        from migrator.textfiles.surroundings import Surroundings

        joined = migrate_documents([(Path(name).absolute(), data)], Surroundings(), (), settings)
        return Result(joined.findings, joined.files, joined.programs)
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


def _with_documents(
    found: Found,
    jobs: Sequence[list[Input]],
    outcomes: Sequence[Outcome],
    settings: Settings,
    failed: list[FileResult],
) -> Result:
    """What became of the programs and of the files beside them."""
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    files = [file for outcome in outcomes for file in outcome.files]
    programs = [program for outcome in outcomes for program in outcome.programs]
    documents: list[tuple[Path, bytes]] = []
    for path, data in scan(found.others, mentions_launcher):
        if isinstance(data, OSError):
            failed.append(FileResult(display(path), "failed", explain(data)))
        else:
            documents.append((path, data))
    if not documents:
        return Result(tuple(findings), tuple(files), tuple(programs))
    from migrator.textfiles.migration import migrate_documents
    from migrator.textfiles.surroundings import Surroundings

    moved = [_moved(job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)]
    surroundings = Surroundings(tuple(moved), found.files, _content)
    joined = migrate_documents(documents, surroundings, programs, settings)
    return Result((*findings, *joined.findings), (*files, *joined.files), joined.programs)


def _moved(job: Sequence[Input], outcome: Outcome) -> Moved:
    from migrator.textfiles.surroundings import Moved

    (name, status) = next(((p.name, p.status) for p in outcome.programs), (job[0].path, "clean"))
    status = "blocked" if any(file.status == "failed" for file in outcome.files) else status
    return Moved(name, frozenset(given.file for given in job), status, outcome.launchers, outcome.requirements)


def _assemble(found: Found, using: Mapping[Path, bytes], failed: Sequence[FileResult], made: Result) -> Result:
    """``made`` in order, with the files that were not looked into."""
    rest = (FileResult(display(path), "unchanged") for path in found.files if path not in using)
    files = {file.path: file for file in (*rest, *made.files, *failed)}
    return Result(
        tuple(sorted(made.findings)),
        tuple(files[path] for path in sorted(files)),
        tuple(sorted(made.programs, key=lambda program: program.name)),
    )
