"""What a project's requirements say of the versions of a distribution."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from migrator.files import read
from migrator.reading import Input

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_FILES = ("requirements*.txt", "constraints*.txt", "requirements/*.txt", "pyproject.toml")


@dataclass(frozen=True)
class Required:
    """A requirement: the distribution's name in its normal form, as it is written, which versions, and where."""

    name: str
    written: str
    versions: SpecifierSet
    file: str

    def __str__(self) -> str:
        return f"{self.file} asks for {self.written}{self.versions}"


def requirements_of(inputs: Sequence[Input]) -> Iterator[Required]:
    """The requirements in the folders of ``inputs`` and above, the nearest first."""
    folders = [folder for given in inputs for folder in given.file.parents]
    for folder in dict.fromkeys(folders):
        yield from _of_folder(folder)


@cache
def _of_folder(folder: Path) -> tuple[Required, ...]:
    files = sorted(file for pattern in _FILES for file in folder.glob(pattern))
    parsed = (_parsed(line, file.name) for file in files for line in _lines(file))
    return tuple(found for found in parsed if found is not None)


def _lines(file: Path) -> Iterator[str]:
    try:
        text = read(file).decode("utf-8", "replace")
        yield from _dependencies(tomllib.loads(text)) if file.suffix == ".toml" else text.splitlines()
    except (OSError, tomllib.TOMLDecodeError, RecursionError):
        return


def _dependencies(project: dict[str, object]) -> Iterator[str]:
    """The requirements of a pyproject.toml, those of its extras too."""
    table = project.get("project")
    if not isinstance(table, dict):
        return
    extras = table.get("optional-dependencies")
    groups: Iterable[object] = extras.values() if isinstance(extras, dict) else ()
    for group in (table.get("dependencies"), *groups):
        yield from (item for item in group if isinstance(item, str)) if isinstance(group, list) else ()


def _parsed(line: str, file: str) -> Required | None:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        requirement = Requirement(re.split(r"\s#|\s--|\s*\\$", line, maxsplit=1)[0].strip())
    except InvalidRequirement:
        return None
    return Required(canonicalize_name(requirement.name), requirement.name, requirement.specifier, file)
