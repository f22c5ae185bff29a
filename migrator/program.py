"""Files joined into programs: those that use Horovod and import one another."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?P<source>\.*[\w.]*)[ \t]+import[ \t]*(?P<names>\([^)]*\)|[^\r\n;#]*)"
    rb"|import[ \t]+(?P<modules>[^\r\n;#]+))",
    re.MULTILINE,
)
_STAR = b"*"
_ASKING = re.compile(rb"synchronize|process_set|\.included\(")
_RUN = re.compile(rb"(?:^# MAGIC[ \t]+|#_cell\d*_ )%run[ \t]+(?P<path>[^\r\n]+)", re.MULTILINE)
LIBRARIES = frozenset({"horovod", "sparkdl"})


@dataclass(frozen=True)
class Program:
    """Files that move together; ``context`` are files outside the given paths that they import and that use Horovod."""

    files: tuple[Path, ...]
    context: tuple[Path, ...] = ()


def imported_modules(data: bytes) -> Iterator[str]:
    """Dotted names that a file imports, with leading dots where relative, found without parsing.

    ``from a import b`` gives both ``a`` and ``a.b``. Text in strings that looks like an import is taken for one: it can
    only join more files.
    """
    for match in _IMPORT.finditer(data):
        if match["modules"] is not None:
            yield from (
                part.split(b" as ")[0].strip().decode("ascii", "ignore") for part in match["modules"].split(b",")
            )
        else:
            source = match["source"].decode("ascii", "ignore")
            yield source
            joint = "" if source.endswith(".") else "."
            for part in re.findall(rb"(\w+)(?:[ \t]+as[ \t]+\w+)?", match["names"]):
                yield f"{source}{joint}{part.decode('ascii', 'ignore')}"


def locate(importer: Path, name: str, root: Path) -> Path | None:
    """The file that ``import name`` in ``importer`` finds, in its folder or one above it up to ``root``."""
    rest = name.lstrip(".")
    dots = len(name) - len(rest)
    parts = [part for part in rest.split(".") if part]
    folders = [importer.parent, *importer.parent.parents]
    bases = folders[dots - 1 : dots] if dots else folders
    for base in bases:
        if found := _module_file(base.joinpath(*parts)):
            return found
        if base == root:
            return None
    return None


def code_of(path: Path, data: bytes) -> bytes:
    """The bytes of a Python file, or what a notebook's cells make of one; nothing where they cannot be read."""
    if path.suffix != ".ipynb":
        return data
    from migrator.source import SourceError, decode

    try:
        return decode(path.name, data).text.encode()
    except SourceError:
        return b""


def run_target(path: Path, argument: str) -> Path | None:
    """The file of the project that ``%run`` with ``argument`` runs in ``path``: a notebook, or a Python file."""
    try:
        words = shlex.split(argument)
    except ValueError:
        return None
    name = next((word for word in words if not word.startswith("-")), "")
    base = Path(os.path.normpath(path.parent / name))
    if not name or "\0" in name or not base.is_relative_to(root_of_cached(path)):
        return None
    candidates = (base, base.with_name(base.name + ".py"), base.with_name(base.name + ".ipynb"))
    files = (each for each in candidates if each.suffix in (".py", ".ipynb"))
    return next((each for each in files if each.is_file() and not each.is_symlink()), None)


def run_files(path: Path, data: bytes) -> Iterator[Path]:
    """The files of the project that a notebook runs."""
    for match in _RUN.finditer(data) if b"%run" in data else ():
        target = run_target(path, match["path"].decode("utf-8", "replace").strip())
        if target is not None and target != path:
            yield target


def related(
    using: Mapping[Path, bytes], files: Iterable[Path], read: Callable[[Path], bytes | None]
) -> dict[Path, bytes]:
    """Those of ``files`` that belong to a program of ``using`` without naming Horovod themselves.

    They import a name that one of ``using`` has from Horovod, or are imported by one and use an object that it may give
    them: they synchronize an optimizer, or ask something of a process set.
    """
    exported = {path: set(_names_from_libraries(data)) for path, data in using.items()}
    found: dict[Path, bytes] = {}
    others = [path for path in files if path not in using] if any(exported.values()) else []
    growing = True
    while growing:
        stems = {_module_name(path) for path, names in exported.items() if names}
        more = {path: data for path in others if path not in found and (data := _taker(path, exported, stems, read))}
        exported |= {path: set(_names_from(path, data, exported)) for path, data in more.items()}
        found |= more
        growing = bool(more)
    for path, data in using.items():
        for target in imported_files(path, data):
            content = read(target) if target not in using and target not in found else None
            if content and _ASKING.search(content):
                found[target] = content
    return found


def _names_from_libraries(data: bytes) -> Iterator[bytes]:
    """The names that a file binds by importing from Horovod."""
    for match in _IMPORT.finditer(data):
        source = match["source"]
        if source is not None and source.split(b".")[0].decode("ascii", "ignore") in LIBRARIES:
            yield from _bound_by(match["names"])
        for part in (match["modules"] or b"").split(b","):
            module, _, alias = part.partition(b" as ")
            if module.strip().split(b".")[0].decode("ascii", "ignore") in LIBRARIES:
                yield alias.strip() or module.strip().split(b".")[0]


def _module_name(path: Path) -> bytes:
    return (path.parent.name if path.stem == "__init__" else path.stem).encode()


def _taker(
    path: Path, exported: Mapping[Path, set[bytes]], stems: set[bytes], read: Callable[[Path], bytes | None]
) -> bytes | None:
    """The content of ``path`` if it imports a file that has names from Horovod, and has a word like one of them."""
    data = read(path)
    if not data or not any(stem in data for stem in stems):
        return None
    words = {_STAR, *re.findall(rb"\w+", data)}
    takes = any(exported.get(target, set()) & words for target in imported_files(path, data))
    return data if takes or any(_names_from(path, data, exported)) else None


def _names_from(path: Path, data: bytes, exported: Mapping[Path, set[bytes]]) -> Iterator[bytes]:
    """The names that ``path`` binds by importing them from files that have them from Horovod."""
    for match in _IMPORT.finditer(data):
        source = (match["source"] or b"").decode("ascii", "ignore")
        target = locate(path, source, root_of_cached(path)) if source else None
        if target is not None and exported.get(target):
            yield from exported[target] if match["names"].strip() == _STAR else _bound_by(match["names"])


def _bound_by(names: bytes) -> Iterator[bytes]:
    """The local names of an import, or a star for what cannot be told."""
    if names.strip() == _STAR:
        yield _STAR
    yield from (local or name for name, local in re.findall(rb"(\w+)(?:[ \t]+as[ \t]+(\w+))?", names))


def imported_files(path: Path, data: bytes) -> Iterator[Path]:
    """The files of the project that a file imports, Horovod's own modules aside."""
    names = (name for name in set(imported_modules(data)) if name.partition(".")[0] not in LIBRARIES)
    found = (locate(path, name, root_of_cached(path)) for name in names)
    yield from (target for target in found if target is not None and target != path)
    yield from run_files(path, data)


@cache
def _module_file(path: Path) -> Path | None:
    for candidate in (path.with_name(path.name + ".py") if path.name else path, path / "__init__.py"):
        if candidate.is_file() and not candidate.is_symlink():
            return candidate
    return None


def root_of(path: Path) -> Path:
    """The folder that holds the project of ``path``: the nearest one with a mark of one.

    Without one, that of the file's package; or one above that, as long as the folders between hold Python files, since
    a package needs no ``__init__.py``.
    """
    marks = (".git", "pyproject.toml", "setup.py", "setup.cfg")
    if marked := next((f for f in path.parents if any((f / mark).exists() for mark in marks)), None):
        return marked
    root = next((folder for folder in path.parents if not (folder / "__init__.py").exists()), path.parent)
    while root.parent != root and any(root.parent.glob("*.py")):
        root = root.parent
    return root


def group(
    using: Mapping[Path, bytes], read: Callable[[Path], bytes | None], uses: Callable[[bytes], bool]
) -> list[Program]:
    """Join the files of ``using`` (path to content) that import one another, through other files too.

    A file that ``uses`` Horovod and is not among ``using`` belongs to the program's context.
    """
    joined: dict[Path, Path] = {path: path for path in using}
    outside: dict[Path, set[Path]] = {}
    reach = cache(lambda path, root: tuple(_reachable(path, root, using, read, uses)))
    for path, data in using.items():
        for target in _targets(path, data, root_of_cached(path), reach, using):
            if target in joined:
                _join(joined, path, target)
            else:
                outside.setdefault(path, set()).add(target)
    programs: dict[Path, list[Path]] = {}
    for path in using:
        programs.setdefault(_find(joined, path), []).append(path)
    return [Program(tuple(sorted(files)), _context(files, outside)) for files in programs.values()]


@cache
def root_of_cached(path: Path) -> Path:
    """``root_of``, remembered."""
    return root_of(path)


def _context(files: Iterable[Path], outside: Mapping[Path, set[Path]]) -> tuple[Path, ...]:
    return tuple(sorted(set().union(*(outside.get(path, set()) for path in files))))


_STARTS = re.compile(rb"horovodrun|mpirun|mpiexec|sagemaker|azureml|azure\.ai\.ml")
_SCRIPT = re.compile(rb"[\w./-]+\.py\b")
_FOLDER = re.compile(rb"\b(?:source_dir|source_directory|code)\s*=\s*[\"']([\w./-]+)[\"']")


def _started_files(path: Path, data: bytes) -> Iterator[Path]:
    """The scripts that a file names, if it names a launcher: it may start them."""
    if not _STARTS.search(data):
        return
    folders = [b"", *(folder + b"/" for folder in set(_FOLDER.findall(data)))]
    for name in {folder + script for script in _SCRIPT.findall(data) for folder in folders}:
        parts = name.decode("ascii", "ignore").removesuffix(".py").split("/")
        target = locate(path, ".".join(part for part in parts if part not in ("", ".", "..")), root_of_cached(path))
        if target is not None and target != path:
            yield target


def _targets(
    path: Path,
    data: bytes,
    root: Path,
    reach: Callable[[Path, Path], tuple[Path, ...]],
    using: Mapping[Path, bytes],
) -> Iterator[Path]:
    for target in (*imported_files(path, data), *_started_files(path, data)):
        if target in using:
            yield target
        else:
            yield from reach(target, root)


def _reachable(
    start: Path,
    root: Path,
    using: Mapping[Path, bytes],
    read: Callable[[Path], bytes | None],
    uses: Callable[[bytes], bool],
) -> Iterator[Path]:
    """The nearest files that use Horovod on every way of imports from ``start``, itself included."""
    seen: set[Path] = set()
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        data = using.get(path) if path in using else read(path)
        if data is None:
            continue
        if path in using or uses(data):
            yield path
            continue
        found = (locate(path, name, root) for name in set(imported_modules(data)))
        waiting += [target for target in found if target is not None]
        waiting += run_files(path, data)


def _find(joined: dict[Path, Path], path: Path) -> Path:
    while joined[path] != path:
        joined[path] = joined[joined[path]]
        path = joined[path]
    return path


def _join(joined: dict[Path, Path], first: Path, second: Path) -> None:
    one, other = sorted((_find(joined, first), _find(joined, second)))
    joined[other] = one
