"""Read setup.cfg and tox.ini: the dependencies that setuptools and tox take from them."""

from __future__ import annotations

import configparser
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.layout import Span
from migrator.textfiles.dependencies import Dependency, DependencyList, dependency
from migrator.textfiles.document import Parts
from migrator.textfiles.rows import Row

_OPTIONS = ("install_requires", "setup_requires", "tests_require", "requires", "requires_dist")
_COMMENTS = ("#", ";")


@dataclass(frozen=True)
class _Option:
    section: str
    key: str
    lines: tuple[Span, ...]
    span: Span


def read_setup_cfg(text: str) -> Parts:
    """The parts of a setup.cfg or tox.ini."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        return Parts(problem=(0, f"not a valid configuration: {' '.join(error.message.split())}"))
    options = list(_options(text))
    found = []
    for option in options:
        is_listed = option.section in ("options", "metadata") and option.key in _OPTIONS
        is_tested = option.section.startswith("testenv") and option.key == "deps"
        if is_listed or is_tested or option.section == "options.extras_require":
            found.append(_list(text, option, [each for each in options if each.section == option.section]))
    return Parts(dependencies=tuple(found))


def _list(text: str, option: _Option, siblings: list[_Option]) -> DependencyList:
    entry = Row(tuple(each.span for each in siblings), ""), siblings.index(option)
    items = tuple(item for line in option.lines for item in _items(text, line, alone=len(option.lines) == 1))
    key = f"{option.section}.{option.key}"
    return DependencyList(key, "pip", items, Row(tuple(item.span for item in items), ""), str, entry)


def _items(text: str, line: Span, *, alone: bool) -> Iterator[Dependency]:
    """What a line asks for; a value of one line separates by semicolons, where they start no marker."""
    source = text[line.start : line.end]
    pieces = (
        source.split(";") if alone and not any(word in source for word in ("python_version", "platform")) else [source]
    )
    position = line.start
    for piece in pieces:
        if asked := piece.strip():
            start = position + len(piece) - len(piece.lstrip())
            yield dependency(asked, Span(start, start + len(asked)))
        position += len(piece) + 1


def _options(text: str) -> Iterator[_Option]:
    """The options with the places of their lines, as configparser tells them apart: by indentation."""
    section = key = ""
    lines: list[Span] = []
    start = end = position = 0
    for line in (*text.splitlines(keepends=True), "[]"):
        content = line.strip()
        span = Span(position + len(line) - len(line.lstrip()), position + len(line.rstrip()))
        position += len(line)
        if not content or content.startswith(_COMMENTS):
            continue
        if key and line[0].isspace():
            lines.append(span)
            end = span.end
            continue
        if key:
            yield _Option(section, key, tuple(lines), Span(start, end))
        lines, key = [], ""
        if content.startswith("["):
            section = content[1:].partition("]")[0]
            continue
        name = min(content.partition("=")[0], content.partition(":")[0], key=len)
        key, start, end = name.strip(), span.start, span.end
        value = content[len(name) + 1 :].strip()
        lines += [Span(span.end - len(value), span.end)] if value else []
