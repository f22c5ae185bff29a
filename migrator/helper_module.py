"""One module for the helpers of a program of several files: where it goes and how each file imports it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from migrator.files import display
from migrator.imports import helper_module_text
from migrator.program import imported_modules, locate, root_of
from migrator.reading import File
from migrator.rewrite import Draft

_NAMES = ("collectives", "distributed_collectives", "process_group_collectives")


@dataclass(frozen=True)
class HelperModule:
    """A new file with helpers, and the name under which each file of the program imports it."""

    path: str
    text: str
    names: dict[Path, str]

    def name_for(self, file: File) -> str:
        """The module's name in ``file``; empty where the helpers go into the file itself."""
        return self.names.get(file.given.file, "")


def helper_module(drafts: Sequence[Draft]) -> HelperModule | None:
    """The module that the program's files share; None if only one needs helpers, or no place suits them all."""
    using = [made for made in drafts if made.helpers and made.file.given.is_given and not made.wrong]
    if len(using) < 2:
        return None
    paths = [made.file.given.file for made in using]
    folder = Path(os.path.commonpath([path.parent for path in paths]))
    name = next((n for n in _NAMES if not (folder / f"{n}.py").exists() and not (folder / n).exists()), None)
    if name is None:
        return None
    names = {path: _name_in(path, folder / name, [made.file for made in drafts]) for path in paths}
    if not all(names.values()):
        return None
    text = helper_module_text(helper for made in using for helper in made.helpers)
    return HelperModule(display(folder / f"{name}.py"), text, {path: found for path, found in names.items() if found})


def _name_in(path: Path, target: Path, files: Sequence[File]) -> str | None:
    """How ``path`` imports the module ``target``: as the program's files already import one another."""
    for base in _bases(path, files):
        if base is None:
            return _relative_name(path, target)
        if target.is_relative_to(base):
            return ".".join(target.relative_to(base).parts)
    return target.name if path.parent == target.parent and not (path.parent / "__init__.py").exists() else None


def _bases(path: Path, files: Sequence[File]) -> Iterator[Path | None]:
    """The folders from which the program's imports are found, those of ``path`` first; None for relative ones."""
    ordered = sorted(files, key=lambda file: file.given.file != path)
    known = {file.given.file for file in files}
    for file in ordered:
        importer = file.given.file
        for name in imported_modules(file.given.data):
            found = locate(importer, name, root_of(importer)) if name else None
            if found not in known or path not in (importer, found):
                continue
            yield None if name.startswith(".") else _base_of(found, name)


def _base_of(found: Path, name: str) -> Path:
    module = found.parent if found.name == "__init__.py" else found.with_suffix("")
    return module.parents[name.count(".")]


def _relative_name(path: Path, target: Path) -> str:
    up = len(path.parent.parts) - len(Path(os.path.commonpath([path.parent, target.parent])).parts)
    rest = target.relative_to(path.parents[up])
    return "." * (up + 1) + ".".join(rest.parts)
