"""A run: which files there are, which programs they make, and their migration, side by side where that pays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from migrator.config import Settings
from migrator.files import (
    Found,
    display,
    explain,
    find,
    mentions_horovod,
    mentions_launcher,
    mentions_submission,
    read,
    scan,
)
from migrator.notices import STRING
from migrator.result import Class, Diagnostic, FileResult, Result
from migrator.textfiles.kinds import is_shell_script, kind_of

if TYPE_CHECKING:
    from migrator.reading import Input
    from migrator.textfiles.surroundings import Moved
    from migrator.transform import Outcome

Progress = Callable[[int, int], None]
_NAMED = re.compile(rb"(?i:horovod)|\bhvd\.|\bHorovodRunner\b|OMPI_COMM_WORLD_")


def migrate(paths: Sequence[Path], settings: Settings, progress: Progress | None = None) -> Result:
    """Migrate every program under ``paths``; ``progress`` hears of programs done and programs in all.

    Raises SettingsError for an exclude pattern that is none. Nothing is written.
    """
    found = find(paths, settings)
    using: dict[Path, bytes] = {}
    left: list[Diagnostic] = []
    failed = [FileResult(display(problem.path), "failed", problem.reason) for problem in found.problems]
    for path, data in scan(found.files, mentions_submission):
        if isinstance(data, OSError):
            failed.append(FileResult(display(path), "failed", explain(data)))
        elif (finding := _left(display(path), data)) is not None:
            left += finding
        else:
            using[path] = data
    jobs = _programs(using, found.files)
    outcomes = list(_run(jobs, settings, progress or (lambda done, total: None)))
    said = {finding.path for outcome in outcomes for finding in outcome.findings}
    left += (note for path, data in using.items() if display(path) not in said for note in _unsaid(path, data))
    made = _with_documents(found, jobs, outcomes, settings, failed)
    return _assemble(found, failed, made, left)


def migrate_text(name: str, data: bytes, settings: Settings) -> Result:
    """Migrate one file given as bytes; nothing else is read."""
    if not mentions_launcher(data):
        return Result(files=(FileResult(name, "unchanged", before=data, after=data),))
    is_beside = kind_of(name) or (is_shell_script(data) and not name.endswith(".py"))
    if is_beside and not (kind_of(name) == "setup.py" and b"import horovod" in data):
        from migrator.textfiles.migration import migrate_documents
        from migrator.textfiles.surroundings import Surroundings

        joined = migrate_documents([(Path(name).absolute(), data)], Surroundings(settings=settings), (), settings)
        return Result(joined.findings, joined.files, joined.programs)
    if (left := _left(name, data)) is not None:
        return Result(left, (FileResult(name, "unchanged", before=data, after=data),))
    from migrator.reading import Input

    (outcome,) = _run([[Input(Path(name).absolute(), name, data)]], replace(settings, jobs=1), lambda done, total: None)
    return Result(outcome.findings, outcome.files, outcome.programs)


def _programs(using: Mapping[Path, bytes], files: Sequence[Path]) -> list[list[Input]]:
    if not using:
        return []
    from migrator.program import code_of, group, related
    from migrator.reading import Input

    def code(path: Path) -> bytes | None:
        content = using.get(path) or _content(path)
        return content if content is None else code_of(path, content)

    def inputs(files: Sequence[Path], given: bool) -> Iterator[Input]:
        for file in files:
            yield Input(file, display(file), using.get(file) or _content(file) or b"", given)

    modules = {path: code_of(path, data) for path, data in using.items()}
    modules |= related(modules, files, code)
    programs = group(modules, code, mentions_horovod)
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
    scripts = dict(_setup_scripts(jobs, outcomes))
    own = set(map(display, scripts))
    findings = [finding for finding in findings if not (finding.rule == STRING and finding.path in own)]
    programs = [program for program in programs if not own.issuperset(program.files)]
    documents += scripts.items()
    if not documents:
        return Result(tuple(findings), tuple(files), tuple(programs))
    from migrator.textfiles.migration import migrate_documents
    from migrator.textfiles.surroundings import Surroundings

    moved = [_moved(job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)]
    programs_of_code = tuple(program for program in moved if not program.files <= scripts.keys())
    surroundings = Surroundings(programs_of_code, found.files, _content, settings)
    joined = migrate_documents(documents, surroundings, programs, settings)
    return Result((*findings, *joined.findings), (*files, *joined.files), joined.programs)


def _setup_scripts(jobs: Sequence[list[Input]], outcomes: Sequence[Outcome]) -> Iterator[tuple[Path, bytes]]:
    """The scripts that say what is installed; one that uses Horovod itself is a program like others."""
    changed = {file.path for outcome in outcomes for file in outcome.files if file.status != "unchanged"}
    for given in (given for job in jobs for given in job):
        is_script = kind_of(given.file.name) == "setup.py" and (
            b"setuptools" in given.data or b"distutils" in given.data
        )
        if is_script and given.is_given and given.path not in changed:
            yield given.file, given.data


def _moved(job: Sequence[Input], outcome: Outcome) -> Moved:
    from migrator.textfiles.surroundings import Moved

    (name, status) = next(((p.name, p.status) for p in outcome.programs), (job[0].path, "clean"))
    status = "blocked" if any(file.status == "failed" for file in outcome.files) else status
    return Moved(name, frozenset(given.file for given in job), status, outcome.launchers, outcome.requirements)


def _assemble(found: Found, failed: Sequence[FileResult], made: Result, left: Sequence[Diagnostic]) -> Result:
    """``made`` in order, with the files that were not looked into and what was left of notebooks."""
    rest = (FileResult(display(path), "unchanged") for path in found.files)
    files = {file.path: file for file in (*rest, *made.files, *failed)}
    return Result(
        tuple(sorted((*made.findings, *left))),
        tuple(files[path] for path in sorted(files)),
        tuple(sorted(made.programs, key=lambda program: program.name)),
    )


def _left(path: str, data: bytes) -> tuple[Diagnostic, ...] | None:
    """What to say of a notebook that is not a module of a program; None of all else."""
    if not path.endswith(".ipynb"):
        return None
    from migrator.notebooks.ipynb import NoModuleError, named_in_code
    from migrator.source import SourceError

    try:
        if named_in_code(data, mentions_horovod):
            return None
    except NoModuleError as error:
        return tuple(_named(path, data, "review", f"names Horovod in {error}"))
    except SourceError:
        return None if _NAMED.search(data) else ()
    return tuple(_named(path, data, "note", "names Horovod in text or output, not in code"))


def _unsaid(path: Path, data: bytes) -> Iterator[Diagnostic]:
    """A notebook whose code names Horovod, but uses nothing of it: perhaps it submits a program that does."""
    if path.suffix == ".ipynb":
        yield from _named(display(path), data, "note", "names Horovod, and uses nothing of it itself")


def _named(path: str, data: bytes, class_: Class, message: str) -> Iterator[Diagnostic]:
    """A finding where ``data`` first names Horovod, if it does."""
    if match := _NAMED.search(data):
        from migrator.notices import OTHER_KIND

        line = data.count(b"\n", 0, match.start()) + 1
        column = match.start() - (data.rfind(b"\n", 0, match.start()) + 1) + 1
        yield Diagnostic(path, line, column, OTHER_KIND, class_, "", message, "")
