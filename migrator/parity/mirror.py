"""A copy of a working tree for one run, so that no run sees or overwrites what another one wrote."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".hvd-migrate", ".venv", "venv", ".tox", ".nox", "node_modules", "__pycache__"}
    | {".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
MOST_BYTES_OF_A_FILE = 16 << 20
MOST_FILES_OF_DATA = 1000
MOST_BYTES_OF_DATA = 64 << 20


def mirror(tree: Path, copy: Path) -> None:
    """Make ``copy`` a copy of the folder ``tree``.

    Files above 16 MiB, and folders of data (no Python below them) with more than 1,000 files or 64 MiB, are links to
    the originals. A link leads where it led, or to the copy of that if it is in ``tree``. Version control, caches,
    environments and the results of earlier comparisons stay out. ``copy`` must not exist, and not lie in ``tree``.
    Raises OSError for a file that cannot be read.
    """
    _mirror(tree.resolve(), copy, tree.resolve(), copy)


def _mirror(folder: Path, target: Path, tree: Path, copy: Path) -> None:
    target.mkdir(parents=True)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in LEFT_OUT:
                _copy(entry, target / entry.name, tree, copy)


def _copy(entry: os.DirEntry[str], target: Path, tree: Path, copy: Path) -> None:
    source = Path(entry.path)
    if entry.is_symlink():
        place = Path(os.path.normpath(source.parent / os.readlink(source)))
        target.symlink_to(copy / place.relative_to(tree) if place.is_relative_to(tree) else place)
    elif entry.is_dir():
        if _is_large_data(source):
            target.symlink_to(source)
        else:
            _mirror(source, target, tree, copy)
    elif entry.is_file():
        if entry.stat().st_size > MOST_BYTES_OF_A_FILE:
            target.symlink_to(source)
        else:
            shutil.copy2(source, target)


def _is_large_data(folder: Path) -> bool:
    files = size = 0
    for entry in _files(folder):
        if entry.name.endswith((".py", ".pyw")):
            return False
        files += 1
        size += entry.stat(follow_symlinks=False).st_size
    return files > MOST_FILES_OF_DATA or size > MOST_BYTES_OF_DATA


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in LEFT_OUT:
                    yield from _files(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                yield entry
