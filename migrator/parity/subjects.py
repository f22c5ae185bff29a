"""What is compared: the files of a program as they are and as they are migrated, or two programs as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

from migrator.parity.trial import Files
from migrator.result import Result
from migrator.source import SourceError, decode


class SubjectError(Exception):
    """There is nothing to compare."""


class BlockedError(SubjectError):
    """The program is not migrated, because something in it blocks that."""


@dataclass(frozen=True)
class Subject:
    """One side: its files, the program among them, and those of its files that the other side has otherwise.

    ``others`` also differ, but are only known to be of the program if it runs them.
    """

    files: Files
    program: PurePath
    changed: tuple[PurePath, ...]
    others: tuple[PurePath, ...] = ()


def of_migration(program: Path, tree: Path, result: Result) -> tuple[Subject, Subject]:
    """A program of ``tree``, and the same with everything written that ``result`` would write.

    Raises SubjectError if that is nothing, and BlockedError if ``program`` belongs to one that is blocked.
    """
    own = {place.name: place for place in result.programs if _holds(place.files, program)}
    blocked = [finding for finding in result.findings if finding.class_ == "blocked" and finding.program in own]
    if blocked:
        first = blocked[0]
        more = f" (and {len(blocked) - 1} more)" if len(blocked) > 1 else ""
        raise BlockedError(f"not migrated: {first.path}:{first.line}: {first.rule} {first.message}{more}")
    ready = {path for place in result.programs if place.status in ("migrated", "partial") for path in place.files}
    written = {_relative(Path(file.path), tree): file for file in result.changed if file.path in ready}
    if not written:
        raise SubjectError(f"{program}: nothing to migrate")
    contents = {path: file.after for path, file in written.items()}
    paths = {_relative(Path(path), tree) for place in own.values() for path in place.files}
    after = [path for path in written if path in paths], [path for path in written if path not in paths]
    before = ([path for path in group if not written[path].is_new] for group in after)
    place = _relative(program, tree)
    return Subject(Files(tree), place, *map(tuple, before)), Subject(Files(tree, contents), place, *map(tuple, after))


def of_programs(original: Path, migrated: Path, trees: tuple[Path, Path]) -> tuple[Subject, Subject]:
    """Two programs as they are, and the Python files in which their trees differ.

    The migrated program is run under the name and at the place of the original, so that their lines can be compared.
    """
    first, second = trees
    place = _relative(original, first)
    written = {place: migrated.read_bytes()} if place != _relative(migrated, second) else {}
    before, after = Files(first), Files(second, written)
    changed = [place] if first == second else [*_differing(before, after), place]
    known = [path for path in dict.fromkeys(changed) if (first / path).is_file()]
    new = [path for path in _differing(after, before) if path not in changed] if first != second else []
    return Subject(before, place, tuple(known)), Subject(after, place, (*known, *new))


def as_script(subject: Subject) -> Subject:
    """``subject``, of which a notebook is run as the script that its cells make.

    Raises SubjectError for a notebook that cannot be read.
    """
    if subject.program.suffix != ".ipynb":
        return subject
    files, program = subject.files, subject.program
    names = (program.with_suffix(".py"), program.with_name(f"{program.stem}_notebook.py"))
    place = next(name for name in names if name is names[-1] or files.content(name) is None)
    written = {**files.written, place: _script(program, files.content(program) or b"")}
    changed = tuple(place if path == program else path for path in subject.changed)
    return Subject(Files(files.tree, written), place, changed, subject.others)


def _script(program: PurePath, content: bytes) -> bytes:
    try:
        source = decode(program.name, content)
    except SourceError as error:
        raise SubjectError(f"{program}: {error}") from error
    return source.notebook.module.script.encode() if source.notebook is not None else b""


def _holds(files: Iterable[str], program: Path) -> bool:
    return any(Path(path).resolve() == program.resolve() for path in files)


def _relative(path: Path, tree: Path) -> PurePath:
    """``path`` within ``tree``. Raises SubjectError if it lies elsewhere."""
    try:
        return path.resolve().relative_to(tree.resolve())
    except ValueError as error:
        raise SubjectError(f"{path} does not lie in {tree}") from error


def _differing(files: Files, other: Files) -> list[PurePath]:
    """The Python files that the other side does not have, or has otherwise."""
    paths = (path.relative_to(files.tree) for path in sorted(files.tree.rglob("*.py")) if path.is_file())
    return [path for path in paths if files.content(path) != other.content(path)]
