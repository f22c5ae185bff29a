"""Which files a run reads: the walk, what git ignores, excludes, and a cheap look at the bytes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from migrator.config import Settings, SettingsError
from migrator.textfiles.kinds import is_shell_script, kind_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_LAUNCHERS = (b"OMPI_COMM_WORLD", b"MV2_COMM_WORLD", b"PMI_RANK", b"PMI_SIZE", b"PMIX_RANK", b"MPI_LOCAL")
_WORDS = (b"hvd", b"sparkdl", b"mpirun", b"mpiexec", *_LAUNCHERS, b"TODO(HVD")
MENTIONS = re.compile(b"|".join((b"(?i:horovod)", *map(re.escape, _WORDS))))
JOURNAL = ".hvd-migrate-journal.json"

_PYTHON = (".py", ".pyw", ".ipynb")
_MANIFESTS = (b"MPIJob", b"srun", b"process_count_per_instance", b"type: mpi", b"sagemaker_mpi_enabled")
_SERVICES = (b"sagemaker", b"azure.ai.ml", b"azureml")
_SKIPPED = frozenset(
    {
        *(".git", ".hg", ".svn", ".venv", ".tox", ".nox", ".mypy_cache", ".eggs"),
        *("node_modules", "__pycache__", ".ipynb_checkpoints"),
    }
)


@dataclass(frozen=True, order=True)
class Problem:
    """A path that could not be used, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Found:
    """What a walk found, each sorted and absolute; ``journals`` are folders in which a killed run left its journal."""

    files: tuple[Path, ...] = ()
    others: tuple[Path, ...] = ()
    problems: tuple[Problem, ...] = ()
    journals: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _Rules:
    base: str
    spec: GitIgnoreSpec


@dataclass(frozen=True)
class _Walk:
    excluded: Callable[[str, bool], bool] | None
    files: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    problems: set[Problem] = field(default_factory=set)
    journals: set[str] = field(default_factory=set)

    def take(self, path: str, name: str) -> None:
        is_beside = not name.endswith(_PYTHON) and (kind_of(name) or is_shell_script(_first_line(path, name)))
        (self.others if is_beside else self.files).add(path)

    def fail(self, path: str, error: OSError) -> None:
        self.problems.add(Problem(Path(path), explain(error)))

    def found(self) -> Found:
        return Found(_sorted(self.files), _sorted(self.others), tuple(sorted(self.problems)), _sorted(self.journals))


def find(paths: Sequence[Path], settings: Settings) -> Found:
    """The files that ``paths`` name or hold; links are followed only where given, never in the walk.

    Raises SettingsError if a pattern of ``settings.exclude`` is none.
    """
    walk = _Walk(_excluder(settings.exclude))
    for path in paths:
        real = os.path.realpath(path)
        try:
            mode = os.stat(real).st_mode
        except OSError as error:
            walk.problems.add(Problem(path, explain(error)))
            continue
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            walk.problems.add(Problem(path, "neither a file nor a folder"))
        elif walk.excluded and walk.excluded(real, stat.S_ISDIR(mode)):
            continue
        elif stat.S_ISDIR(mode):
            _walk_tree(real, walk)
        else:
            walk.take(real, os.path.basename(real))
    return walk.found()


def read(path: Path) -> bytes:
    """The bytes of a file; raises OSError if it cannot be read."""
    with open(path, "rb", buffering=0) as file:
        return file.read()


def mentions_horovod(data: bytes) -> bool:
    """Whether ``MENTIONS`` occurs in ``data``, at several times the speed of the expression."""
    return any(word in data for word in _WORDS) or b"horovod" in data.lower()


def mentions_launcher(data: bytes) -> bool:
    """Whether a file beside the code names Horovod, or what starts its ranks."""
    return mentions_horovod(data) or any(word in data for word in _MANIFESTS)


def mentions_submission(data: bytes) -> bool:
    """Whether code names Horovod, or asks a service to start a script by MPI."""
    if mentions_horovod(data):
        return True
    return any(word in data for word in _SERVICES) and b"mpi" in data.lower()


def scan(
    files: Sequence[Path], mentions: Callable[[bytes], bool] = mentions_horovod
) -> Iterator[tuple[Path, bytes | OSError]]:
    """Each file that ``mentions`` Horovod, with its bytes, and each that cannot be read, with the error."""
    for path in files:
        try:
            data = read(path)
        except OSError as error:
            yield path, error
        else:
            if mentions(data):
                yield path, data


def display(path: Path) -> str:
    """The path as reports show it: with forward slashes, relative to the working directory if it lies in it."""
    path = Path(os.path.abspath(path))
    folder = Path.cwd()
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()


def explain(error: OSError) -> str:
    """An operating system's error in a few words, without the path."""
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    return (error.strerror or str(error)).lower()


def _sorted(paths: Collection[str]) -> tuple[Path, ...]:
    return tuple(Path(path) for path in sorted(paths, key=lambda path: path.split(os.sep)))


def _walk_tree(root: str, walk: _Walk) -> None:
    pending = [(root, _rules_above(root, walk))]
    while pending:
        folder, rules = pending.pop()
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
            rules = _enter(folder, {entry.name for entry in listed}, rules, walk)
            for entry in listed:
                if entry.is_dir(follow_symlinks=False):
                    if not _is_skipped(entry) and not _is_ignored(entry.path, True, rules, walk):
                        pending.append((entry.path, rules))
                elif entry.name.endswith(_PYTHON) or kind_of(entry.name) or _is_script(entry):
                    _take(entry, rules, walk)
        except OSError as error:
            walk.fail(folder, error)


def _take(entry: os.DirEntry[str], rules: tuple[_Rules, ...], walk: _Walk) -> None:
    if entry.is_symlink() or ((rules or walk.excluded) and _is_ignored(entry.path, False, rules, walk)):
        return
    if entry.is_file(follow_symlinks=False):
        walk.take(entry.path, entry.name)
    else:
        walk.problems.add(Problem(Path(entry.path), "neither a file nor a folder"))


def _is_script(entry: os.DirEntry[str]) -> bool:
    """Whether a file without an extension may be run, by a shell or by Python."""
    if "." in entry.name or not entry.is_file(follow_symlinks=False):
        return False
    line = _first_line(entry.path, entry.name) if entry.stat(follow_symlinks=False).st_mode & 0o111 else b""
    return is_shell_script(line) or (line.startswith(b"#!") and b"python" in line)


def _first_line(path: str, name: str) -> bytes:
    """The start of a file whose name does not tell what it is; nothing of others, or of one that cannot be read."""
    if "." in name:
        return b""
    try:
        with open(path, "rb") as file:
            return file.readline(128)
    except OSError:
        return b""


def _is_skipped(entry: os.DirEntry[str]) -> bool:
    if entry.name == "venv":
        return os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
    return entry.name in _SKIPPED


def _is_ignored(path: str, is_folder: bool, rules: tuple[_Rules, ...], walk: _Walk) -> bool:
    if walk.excluded and walk.excluded(path, is_folder):
        return True
    for rule in reversed(rules):
        include = rule.spec.check_file(path[len(rule.base) :] + "/" * is_folder).include
        if include is not None:
            return include
    return False


def _excluder(patterns: Sequence[str]) -> Callable[[str, bool], bool] | None:
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec

    try:
        spec = GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise SettingsError(f"exclude: {error}") from error
    here = os.getcwd()

    def excluded(path: str, is_folder: bool) -> bool:
        inside = path[len(here) + 1 :] if path.startswith(here + os.sep) else os.path.relpath(path, here)
        while inside.startswith(".." + os.sep):
            inside = inside[3:]
        return inside not in (".", "..") and spec.match_file(inside + "/" * is_folder)

    return excluded


def _rules_above(root: str, walk: _Walk) -> tuple[_Rules, ...]:
    """The rules that hold at ``root``, without those by which git would ignore it: it was asked for."""
    above = [str(folder) for folder in (Path(root), *Path(root).parents)]
    top = next((index for index, folder in enumerate(above) if os.path.lexists(os.path.join(folder, ".git"))), 0)
    rules: tuple[_Rules, ...] = ()
    for folder in reversed(above[1 : top + 1]):
        names = {name for name in (".git", ".gitignore") if os.path.lexists(os.path.join(folder, name))}
        rules = _enter(folder, names, rules, walk)
    return tuple(rule for rule in rules if not rule.spec.check_file(root[len(rule.base) :] + "/").include)


def _enter(folder: str, names: Collection[str], rules: tuple[_Rules, ...], walk: _Walk) -> tuple[_Rules, ...]:
    if JOURNAL in names:
        walk.journals.add(folder)
    if ".git" in names:
        rules = _load(folder, os.path.join(folder, ".git", "info", "exclude"), walk)
    if ".gitignore" in names:
        rules += _load(folder, os.path.join(folder, ".gitignore"), walk)
    return rules


def _load(folder: str, file: str, walk: _Walk) -> tuple[_Rules, ...]:
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            return ()
        text = os.fsdecode(read(Path(file))).removeprefix("\ufeff")
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        walk.fail(file, error)
        return ()
    lines = (line.removesuffix("\r") for line in text.split("\n") if line.strip() and not line.startswith("#"))
    # To pathspec "x/**" ignores x itself too, and then nothing in it could be taken back.
    spec = _compile([line.removesuffix("*") if line.endswith("/**") else line for line in lines])
    return (_Rules(folder.rstrip(os.sep) + os.sep, spec),) if spec else ()


def _compile(lines: Sequence[str]) -> GitIgnoreSpec | None:
    if not lines:
        return None
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
