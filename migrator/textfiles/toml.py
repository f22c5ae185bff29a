"""Read TOML: the dependencies of pyproject.toml, in the tables of each tool, and those of a Pipfile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Array, Item, Table

from migrator.layout import Span
from migrator.textfiles.dependencies import Dependency, DependencyList, Style, dependency
from migrator.textfiles.document import Parts
from migrator.textfiles.rows import Row

_OPEN, _CLOSE = "\ue000", "\ue001"
_OF_ARRAYS = (
    *("dependencies", "extra-dependencies", "dev-dependencies", "constraint-dependencies", "override-dependencies"),
    *("build-constraint-dependencies", "no-build-isolation-package", "no-binary-package", "no-build-package"),
    *("no-binary", "no-build-isolation", "requires"),
)
_OF_TABLES = ("dependencies", "dev-dependencies", "pypi-dependencies", "build-dependencies", "host-dependencies")
_OF_UV = ("sources", "extra-build-dependencies", "extra-build-variables")
_NOT_OF_PIPFILE = ("source", "requires", "pipenv", "scripts")

Path = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the values of a document stand in its text."""

    text: str
    spans: Mapping[int, Span]

    def line(self, value: object) -> Span:
        """From the start of the line on which the key of ``value`` stands to the end of the value."""
        spans = [self.spans[id(leaf)] for leaf in _leaves(value)]
        start = min(span.start for span in spans)
        start = self.text.rfind("\n", 0, start) + 1
        return Span(start, max(span.end for span in spans))


def read_pyproject(text: str) -> Parts:
    """The parts of a pyproject.toml."""
    return _read(text, _of_pyproject)


def read_pipfile(text: str) -> Parts:
    """The parts of a Pipfile."""
    return _read(text, lambda path: "table" if len(path) == 1 and path[0] not in _NOT_OF_PIPFILE else None)


def _read(text: str, style_of: Callable[[Path], Style | None]) -> Parts:
    try:
        document = tomlkit.parse(text)
        same = document.as_string() == text
    except (TOMLKitError, RecursionError, ValueError) as error:
        return Parts(problem=(0, f"not valid TOML: {error}"))
    if not same or _OPEN in text:
        return Parts(problem=(0, "TOML that cannot be written back as it is"))
    values = list(_values(document))
    places = _Places(text, _spans(values, document.as_string))
    found = [
        listed
        for path, holder, value in values
        if (style := style_of(path)) is not None and (listed := _list(path, style, value, places, holder)) is not None
    ]
    return Parts(dependencies=tuple(found))


def _of_pyproject(path: Path) -> Style | None:
    if path == ("build-system", "requires") or path == ("project", "dependencies"):
        return "pip"
    if path[:-1] in (("project", "optional-dependencies"), ("dependency-groups",), ("tool", "pdm", "dev-dependencies")):
        return "pip"
    if path[0] != "tool" or len(path) < 3:
        return None
    if path[:-1] == ("tool", "poetry", "extras"):
        return "names"
    if path[-1] in _OF_TABLES and path[1] in ("poetry", "pixi"):
        return "table"
    if path[1] == "uv" and path[-1] in _OF_UV:
        return "names"
    return "pip" if path[-1] in _OF_ARRAYS or path[-2] == "features" else None


def _list(
    path: Path, style: Style, value: object, places: _Places, holder: Mapping[str, object]
) -> DependencyList | None:
    key = ".".join(path)
    if isinstance(value, Array):
        asked = tuple(
            dependency(str(item) if isinstance(item, str) else "", places.spans[id(item)]) for item in list(value)
        )
        row = Row(tuple(item.span for item in asked))
        return DependencyList(key, style, asked, row, json.dumps, _entry(value, holder, places))
    if isinstance(value, Mapping) and style in ("table", "names"):
        named = [(name, each) for name, each in value.items() if next(_leaves(each), None) is not None]
        asked = tuple(_pair(str(name), each, places) for name, each in named)
        return DependencyList(key, style, asked, Row(tuple(item.span for item in asked), ""), _as_pair)
    return None


def _entry(value: object, holder: Mapping[str, object], places: _Places) -> tuple[Row, int] | None:
    """An array as one of the pairs of its table, where they stand on lines of their own."""
    siblings = [each for each in holder.values() if not isinstance(each, Table)]
    if not all(isinstance(each, Array) for each in siblings):
        return None
    row = Row(tuple(places.line(each) for each in siblings), "")
    return row, next(index for index, each in enumerate(siblings) if each is value)


def _pair(name: str, value: object, places: _Places) -> Dependency:
    """A dependency written as ``name = "1.0"``, as ``name = {version = "1.0"}`` or as a table of its own."""
    span = places.line(value)
    if isinstance(value, Table):
        above = places.text.rfind("\n[", 0, span.start) + 1
        header = places.text[above : span.start].strip()
        if header.startswith("[") and header.endswith("]") and "\n" not in header and name in header:
            rest = places.text[span.end :]
            blank = len(rest) - len(rest.lstrip())
            span = Span(above, span.end + max(rest[:blank].rfind("\n"), 0))
    version = value.get("version", "") if isinstance(value, Mapping) else value
    extras = value.get("extras", ()) if isinstance(value, Mapping) else ()
    extra = f"[{','.join(map(str, extras))}]" if isinstance(extras, list) and extras else ""
    written = str(version) if isinstance(version, str) else ""
    return replace(dependency(name, span), text=f"{name}{extra}{written if written != '*' else ''}")


def _as_pair(requirement: str) -> str:
    return f'{requirement} = "*"'


def _values(holder: Mapping[str, object], path: Path = ()) -> Iterator[tuple[Path, Mapping[str, object], object]]:
    """Every value with its path and holder, holders first."""
    waiting: list[tuple[Path, Mapping[str, object]]] = [(path, holder)]
    while waiting:
        above, table = waiting.pop(0)
        for key, value in table.items():
            yield (*above, str(key)), table, value
            if isinstance(value, Mapping):
                waiting.append(((*above, str(key)), value))
            elif isinstance(value, list) and not isinstance(value, Array):
                waiting += [((*above, str(key)), each) for each in value if isinstance(each, Mapping)]


def _leaves(value: object) -> Iterator[Item]:
    """The values that are written as such: not the tables that hold them."""
    if isinstance(value, Table) or (isinstance(value, Mapping) and not isinstance(value, Item)):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, Item):
        yield value


def _spans(values: list[tuple[Path, Mapping[str, object], object]], write: Callable[[], str]) -> dict[int, Span]:
    """Where each value is written: the document is printed once, with a mark on either side of every value."""
    leaves = [leaf for _, _, value in values for leaf in _leaves(value)]
    leaves += [each for leaf in leaves if isinstance(leaf, Array) for each in leaf if isinstance(each, Item)]
    numbered = list({id(leaf): leaf for leaf in leaves}.values())
    for place, leaf in enumerate(numbered):
        leaf.__dict__["as_string"] = _marked(leaf.as_string, place)
    pieces = write().split(_OPEN)
    found, opened, position = dict[int, int](), list[int](), len(pieces[0])
    spans: dict[int, Span] = {}
    for piece in pieces[1:]:
        number, _, rest = piece.partition(_CLOSE)
        if number:
            found[int(number)] = position
            opened.append(int(number))
        else:
            closed = opened.pop()
            spans[id(numbered[closed])] = Span(found[closed], position)
        position += len(rest)
    return spans


def _marked(write: Callable[[], str], number: int) -> Callable[[], str]:
    return lambda: f"{_OPEN}{number}{_CLOSE}{write()}{_OPEN}{_CLOSE}"
