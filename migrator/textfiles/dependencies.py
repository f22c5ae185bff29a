"""What a file asks to be installed: lists of requirements, whatever the syntax that holds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from migrator.layout import Span
from migrator.textfiles.rows import Row

Style = Literal["pip", "conda", "table", "names"]
_OF_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_FILES = (".whl", ".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".zip")
_ARCHIVES = ("archive", "tarball", "zipball", "releases", "tree")


@dataclass(frozen=True)
class Dependency:
    """One distribution that is asked for; ``text`` is how, as far as pip or conda reads it."""

    name: str
    text: str
    span: Span


@dataclass(frozen=True, eq=False)
class DependencyList:
    """A list of dependencies; ``row`` has their places, in the same order, or none where they cannot be edited.

    ``key`` is what the list is called, ``entry`` the list as an item of what holds it, ``may_be_empty`` whether it may
    stay without items. In a list of ``names`` each refers to a dependency that another list has.
    """

    key: str
    style: Style
    items: tuple[Dependency, ...]
    row: Row
    quoted: Callable[[str], str] = str
    entry: tuple[Row, int] | None = None
    may_be_empty: bool = True


def dependency(text: str, span: Span) -> Dependency:
    """The dependency that ``text`` asks for."""
    return Dependency(distribution_of(text), text, span)


def distribution_of(text: str) -> str:
    """The normalised name of what a requirement of pip or conda, a file or an address installs; empty if unknown."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    text = text.strip()
    if _at_start(text) == text and not text.endswith(_FILES):
        return str(canonicalize_name(text))
    try:
        name = Requirement(text).name
        return _of_place(text) if name.endswith(_FILES) else str(canonicalize_name(name))
    except InvalidRequirement:
        text = text.partition("::")[2] or text
    name = _at_start(text)
    rest = text[len(name) :]
    is_place = "://" in text or any(suffix in text for suffix in _FILES)
    is_known = not rest or rest[0] in " \t=<>!~[;@$%{"
    return str(canonicalize_name(name)) if is_known and not is_place else _of_place(text)


def _at_start(text: str) -> str:
    length = next((index for index, letter in enumerate(text) if letter not in _OF_NAMES), len(text))
    return text[:length]


def _of_place(text: str) -> str:
    """The name that a path or an address ends in: of a repository, an archive, a wheel or a folder."""
    from packaging.utils import canonicalize_name

    place, _, fragment = text.partition("#")
    if "egg=" in fragment:
        return str(canonicalize_name(_at_start(fragment.partition("egg=")[2])))
    if "://" in place:
        place = place.partition("://")[2].partition("/")[2].partition("@")[0]
    parts = [part for part in place.partition("?")[0].partition("[")[0].split("/") if part]
    cut = next((index for index, part in enumerate(parts) if part in _ARCHIVES and index), len(parts))
    if not parts[:cut]:
        return ""
    last = parts[cut - 1].removesuffix(".git")
    pieces = last.split("-")
    known = next((n for n, piece in enumerate(pieces) if n and not piece[:1].isalpha()), len(pieces))
    return str(canonicalize_name(_at_start("-".join(pieces[:known]))))


def extras_of(text: str) -> tuple[str, ...]:
    """The extras that a requirement names, in order."""
    inside = text.partition("[")[2].partition("]")[0]
    return tuple(extra.strip().lower() for extra in inside.split(",") if extra.strip())


def allows_from(text: str, first: str) -> bool:
    """Whether what a requirement says of versions allows one that is not below ``first``; so does what says nothing."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import Version

    written = text.partition("::")[2] or text
    written = written[len(_at_start(written)) :].partition(";")[0].strip()
    written = written.rpartition("]")[2].strip() if written.startswith("[") else written
    if written[:1] == "=" and written[:2] != "==":
        written = f"=={written[1:].partition('=')[0].removesuffix('.*').removesuffix('*')}.*"
    try:
        allowed = SpecifierSet(written.replace("^", "~=").strip("\"'"))
    except InvalidSpecifier:
        return True
    lowest = Version(first)
    newer = [
        f"{major}.{minor}.{patch}"
        for major in range(lowest.major, lowest.major + 3)
        for minor in range(40)
        for patch in range(7)
    ]
    pinned = [spec.version.removesuffix(".*") for spec in allowed if spec.operator in ("==", "===")]
    return any(Version(version) >= lowest and version in allowed for version in (*newer, *filter(_is_version, pinned)))


def _is_version(text: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
