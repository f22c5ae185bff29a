"""Which Keras a program is for, 2 or 3, as far as its text or the project's requirements say."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from migrator.config import Settings
from migrator.files import read
from migrator.reading import Input

_USED = re.compile(rb"\btensorflow\b|\bkeras\b")
_LEGACY = re.compile(rb"TF_USE_LEGACY_KERAS|\b(?:import|from)[ \t]+tf_keras\b")
_REQUIREMENTS = ("requirements*.txt", "constraints*.txt", "requirements/*.txt", "pyproject.toml")
_TENSORFLOW = {"tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-intel", "tf-nightly"}
# TensorFlow 2.16 is the first whose Keras is 3.
_RELEASES = {"tensorflow": [f"2.{minor}.{patch}" for minor in range(31) for patch in range(6)]}
_RELEASES["keras"] = [f"{major}.{minor}.{patch}" for major in (2, 3) for minor in range(31) for patch in range(4)]
_FIRST_OF_KERAS_3 = {"tensorflow": (2, 16), "keras": (3, 0)}


@dataclass(frozen=True)
class Keras:
    """A version of Keras, and what says so."""

    version: Literal["2", "3"]
    reason: str


def with_keras(settings: Settings, inputs: Sequence[Input]) -> tuple[Settings, str]:
    """Settings that say which Keras the program has, and a line for the report; empty without TensorFlow."""
    if not any(_USED.search(given.code) for given in inputs):
        return settings, ""
    if settings.keras != "auto":
        return settings, f"written for Keras {settings.keras}, as asked"
    found = _found(inputs)
    if found is None:
        return settings, "written for Keras 2 and 3, since nothing says which; --keras 2 or 3 makes it shorter"
    return replace(settings, keras=found.version), f"written for Keras {found.version}: {found.reason}"


def _found(inputs: Sequence[Input]) -> Keras | None:
    for given in inputs:
        if match := _LEGACY.search(given.code):
            return Keras("2", f"{given.path} says {' '.join(match[0].decode().split())}")
    folders = [folder for given in inputs for folder in given.file.parents]
    return next((found for folder in dict.fromkeys(folders) if (found := _of_folder(folder))), None)


@cache
def _of_folder(folder: Path) -> Keras | None:
    """What the requirements in a folder say."""
    files = sorted(file for pattern in _REQUIREMENTS for file in folder.glob(pattern))
    requirements = ((file, line) for file in files for line in _lines(file))
    return next((found for file, line in requirements if (found := _of_requirement(line, file.name))), None)


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


def _of_requirement(line: str, file: str) -> Keras | None:
    """The Keras that a requirement allows, where it allows one only."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        requirement = Requirement(re.split(r"\s#|\s--|\s*\\$", line, maxsplit=1)[0].strip())
    except InvalidRequirement:
        return None
    named: str = canonicalize_name(requirement.name)
    name = "tensorflow" if named in _TENSORFLOW else named
    allowed = list(requirement.specifier.filter(_RELEASES.get(name, ())))
    are_new = {tuple(map(int, release.split(".")[:2])) >= _FIRST_OF_KERAS_3[name] for release in allowed}
    if len(are_new) != 1 or not requirement.specifier:
        return None
    return Keras("3" if are_new.pop() else "2", f"{file} asks for {requirement.name}{requirement.specifier}")
