"""Modules for the helpers of a program of several files: where they go and how each file imports them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
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


def helper_modules(drafts: Sequence[Draft], in_place: Collection[str] = ()) -> list[HelperModule]:
    """The modules that the program's files share: one where a place suits them all, else one for each package.

    A file that needs helpers alone, a notebook, one that no place suits, and one of the paths ``in_place`` have them in
    themselves.
    """
    files = [made.file for made in drafts]
    using = [made for made in drafts if made.helpers and made.file.given.is_given and not made.wrong]
    using = [m for m in using if m.file.source.notebook is None and m.file.given.path not in in_place]
    if len(using) < 2:
        return []
    for folder in _folders([made.file.given.file for made in using]):
        if found := _module_in(folder, using, files):
            return [found]
    groups: dict[Path | None, list[Draft]] = {}
    for made in using:
        groups.setdefault(_package_of(made.file.given.file), []).append(made)
    common = [(Path(os.path.commonpath([m.file.given.file.parent for m in group])), group) for group in groups.values()]
    modules = (_module_in(folder, group, files) for folder, group in common if len(group) > 1)
    return [module for module in modules if module is not None]


def _folders(paths: Sequence[Path]) -> Iterator[Path]:
    """Where a module for all of ``paths`` may be: their common folder, or the only package among them."""
    packages = {package for path in paths if (package := _package_of(path)) is not None}
    common = Path(os.path.commonpath([path.parent for path in paths]))
    if not packages or (common / "__init__.py").exists():
        yield common
    if len(packages) == 1:
        package = packages.pop()
        yield Path(os.path.commonpath([path.parent for path in paths if path.is_relative_to(package)]))


def _package_of(path: Path) -> Path | None:
    """The outermost package in which ``path`` lies."""
    found = None
    for folder in path.parents:
        if not (folder / "__init__.py").exists():
            break
        found = folder
    return found


def _module_in(folder: Path, using: Sequence[Draft], files: Sequence[File]) -> HelperModule | None:
    """A module in ``folder`` for ``using``; None where some cannot import it, or every name is taken."""
    name = next((n for n in _NAMES if not (folder / f"{n}.py").exists() and not (folder / n).exists()), None)
    if name is None:
        return None
    names = {made.file.given.file: _name_in(made.file.given.file, folder / name, files) for made in using}
    if not all(names.values()):
        return None
    text = helper_module_text(helper for made in using for helper in made.helpers)
    return HelperModule(display(folder / f"{name}.py"), text, {path: found for path, found in names.items() if found})


def _name_in(path: Path, target: Path, files: Sequence[File]) -> str | None:
    """How ``path`` imports the module ``target``: as the program's files already import one another."""
    package = _package_of(path)
    if path.parent == target.parent and _imports_siblings(path, files):
        return target.name
    for base in _bases(path, files):
        if base is None:
            if package is not None and target.is_relative_to(package):
                return _relative_name(path, target)
        elif target.is_relative_to(base):
            return ".".join(target.relative_to(base).parts)
    return target.name if path.parent == target.parent and package is None else None


def _imports_siblings(path: Path, files: Sequence[File]) -> bool:
    """Whether ``path`` imports another file of its folder as a script does, by its bare name."""
    data = next((file.given.code for file in files if file.given.file == path), b"")
    names = {name for name in imported_modules(data) if name and "." not in name}
    return any(locate(path, name, root_of(path)) == path.with_name(f"{name}.py") for name in names)


def _bases(path: Path, files: Sequence[File]) -> Iterator[Path | None]:
    """The folders from which the program's imports are found, those of ``path`` first; None for relative ones."""
    ordered = sorted(files, key=lambda file: file.given.file != path)
    for file in ordered:
        importer = file.given.file
        for name in imported_modules(file.given.code):
            found = locate(importer, name, root_of(importer)) if name else None
            if found is None or path not in (importer, found):
                continue
            yield None if name.startswith(".") else _base_of(found, name)


def _base_of(found: Path, name: str) -> Path:
    module = found.parent if found.name == "__init__.py" else found.with_suffix("")
    return module.parents[name.count(".")]


def _relative_name(path: Path, target: Path) -> str:
    up = len(path.parent.parts) - len(Path(os.path.commonpath([path.parent, target.parent])).parts)
    rest = target.relative_to(path.parents[up])
    return "." * (up + 1) + ".".join(rest.parts)
