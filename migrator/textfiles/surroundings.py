"""What a file beside the code may know of the programs that the run migrates."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from migrator.config import Settings
from migrator.files import display
from migrator.program import imported_files, imported_modules, root_of_cached
from migrator.result import ProgramStatus


class AmbiguousError(ValueError):
    """A name that several files have; the message names those that use Horovod."""


@dataclass(frozen=True, eq=False)
class Moved:
    """A program of the run: its files, what became of it, what starts it now, and what it needs to be installed."""

    name: str
    files: frozenset[Path]
    status: ProgramStatus
    launchers: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()

    @property
    def is_migrated(self) -> bool:
        """Whether nothing of it uses Horovod after the run."""
        return self.status in ("migrated", "clean")


@dataclass(frozen=True)
class Script:
    """A script that a command starts: the file, the folder that the command runs in, and its program in this run.

    ``uses_horovod`` says that it does, itself or through what it imports, whether the run has its program or not.
    """

    file: Path
    folder: Path
    program: Moved | None
    uses_horovod: bool


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The programs of the run, every Python file that it found, how to read one, and the settings."""

    programs: tuple[Moved, ...] = ()
    files: tuple[Path, ...] = ()
    read: Callable[[Path], bytes | None] = field(default=lambda path: None)
    settings: Settings = field(default_factory=Settings)

    def script(
        self, document: Path, name: str, *, is_module: bool = False, folders: Sequence[str] = ()
    ) -> Script | None:
        """The script or module that a command of ``document`` calls ``name``, run in one of ``folders`` or nearby.

        None where no file is called so. Raises AmbiguousError where several are, and one of them uses Horovod.
        """
        parts = PurePosixPath(name.replace(".", "/") + ".py" if is_module else name).parts
        parts = tuple(part for part in parts if part not in ("/", ".") and not part.startswith("$"))
        if not parts or not parts[-1].endswith(".py"):
            return None
        beside = [found for folder in (*folders, "") if (found := self._beside(document, (folder, *parts)))]
        found = beside[0] if beside else self._by_name(document, parts)
        if found is None:
            return None
        file, folder = found
        reached = [p for p in self.programs if file in p.files] or self._reached(file)
        program = reached[0] if reached else None
        files = program.files if program is not None else ()
        return Script(file, folder, program, any(map(self._names_horovod, files)) or self._mentions(file))

    def around(self, document: Path) -> tuple[Moved, ...]:
        """The programs that a file installs things for: those below its folder, else those of its project."""
        below = tuple(p for p in self.programs if any(f.is_relative_to(document.parent) for f in p.files))
        root = root_of_cached(document)
        return below or tuple(p for p in self.programs if any(root_of_cached(f) == root for f in p.files))

    def framework(self, file: Path) -> str:
        """The launcher that suits what a script trains with, told from its imports: for want of a program."""
        names = {name.partition(".")[0] for name in imported_modules(self.read(file) or b"")}
        return "launch_workers.py" if names & {"tensorflow", "keras"} and "torch" not in names else "torchrun"

    def _beside(self, document: Path, parts: Sequence[str]) -> tuple[Path, Path] | None:
        top = min(root_of_cached(document), self._top(document), key=lambda folder: len(folder.parts))
        for folder in document.parents:
            file = Path(os.path.normpath(folder.joinpath(*parts)))
            if file in self._known or self.read(file) is not None:
                return file, folder.joinpath(*parts[:1]) if parts[0] else folder
            if folder == top:
                break
        return None

    def _top(self, document: Path) -> Path:
        """The folder that holds the file and all that the run found."""
        return Path(os.path.commonpath([document.parent, *self._folders]))

    @cached_property
    def _folders(self) -> frozenset[Path]:
        return frozenset(file.parent for file in self.files)

    def _by_name(self, document: Path, parts: Sequence[str]) -> tuple[Path, Path] | None:
        """The file of the run whose path ends as ``parts`` does, as far as they go: images hold copies elsewhere."""
        parts = [part for part in parts if part != os.pardir]
        for start in range(len(parts)):
            tail = tuple(parts[start:])
            named = _nearest(document, [file for file in self.files if file.parts[-len(tail) :] == tail])
            if len(named) == 1:
                return named[0], named[0].parents[len(tail) - 1]
            using = [file for file in named if self._mentions(file)]
            if using:
                raise AmbiguousError(f"several files are called {'/'.join(tail)}: {', '.join(map(display, using[:3]))}")
            if named:
                return None
        return None

    @cached_property
    def _known(self) -> frozenset[Path]:
        return frozenset(self.files)

    def _reached(self, file: Path) -> list[Moved]:
        """The programs of which a file imports something, itself or through others."""
        return [p for p in self.programs if not p.files.isdisjoint(self._imported(file))]

    def _imported(self, file: Path) -> Iterator[Path]:
        waiting, seen = [file], {file}
        while waiting:
            here = waiting.pop()
            yield here
            more = set(imported_files(here, self.read(here) or b"")) - seen
            seen |= more
            waiting += more

    def _mentions(self, file: Path) -> bool:
        """Whether a file, or one that it imports, names Horovod: what MPI's launchers set is read by others too."""
        return any(map(self._names_horovod, self._imported(file)))

    def _names_horovod(self, file: Path) -> bool:
        data = self.read(file) or b""
        return b"sparkdl" in data or b"horovod" in data.lower()


def _nearest(document: Path, files: Sequence[Path]) -> list[Path]:
    """Those of ``files`` that have the longest way in common with ``document``."""
    shared = [len(Path(os.path.commonpath([document, file])).parts) for file in files]
    return [file for file, length in zip(files, shared, strict=True) if length == max(shared)]
