"""Read requirements and constraints of pip: one to a logical line, with options, hashes and comments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from migrator.layout import Span
from migrator.textfiles.dependencies import Dependency, DependencyList, dependency
from migrator.textfiles.document import Parts
from migrator.textfiles.rows import Row

_EDITABLE = ("-e", "--editable")
_OF_BINARIES = ("--no-binary", "--only-binary")


@dataclass(frozen=True)
class _Line:
    """A logical line: its text without comments and continuations, and where it stands."""

    text: str
    span: Span


def read_requirements(text: str) -> Parts:
    """The parts of a file of requirements."""
    lines = [line for line in _logical_lines(text) if line.text]
    row = Row(tuple(line.span for line in lines), "")
    listed = DependencyList("", "pip", tuple(map(_asked, lines)), row)
    chosen = [_chosen(text, line, row, index) for index, line in enumerate(lines)]
    return Parts(dependencies=(listed, *(each for each in chosen if each is not None)))


def _logical_lines(text: str) -> Iterator[_Line]:
    """The lines as pip joins them; with one goes the comment below it that says, as pip-compile does, who wanted it."""
    pieces: list[str] = []
    start = position = end = 0
    lines = text.splitlines(keepends=True) if "\x0b" not in text else text.split("\n")
    for index, line in enumerate(lines):
        content = line.rstrip("\r\n")
        code = _code(content)
        if not pieces:
            start = position + len(content) - len(content.lstrip())
        goes_on = content.endswith("\\") and not content.lstrip().startswith("#")
        pieces.append(code.removesuffix("\\") if goes_on else code)
        end = position + len(code.rstrip()) if code.strip() else max(end, start)
        position += len(line)
        if not goes_on or index + 1 == len(lines):
            end = max(end, start)
            below = _annotation(lines, index + 1)
            joined = " ".join("".join(pieces).split())
            yield _Line(joined, Span(start, position + below if below and joined else end))
            pieces = []


def _code(line: str) -> str:
    """A line without its comment."""
    stripped = line.lstrip()
    if stripped.startswith("#"):
        return ""
    places = (line.find(blank + "#") for blank in (" ", "\t"))
    return line[: min((place for place in places if place >= 0), default=len(line))]


def _annotation(lines: list[str], index: int) -> int:
    """The length, without the last line end, of the comment that pip-compile writes below a requirement."""
    length = 0
    if index < len(lines) and lines[index][:1] in (" ", "\t") and lines[index].lstrip().startswith("# via"):
        while index < len(lines) and lines[index][:1] in (" ", "\t") and lines[index].lstrip().startswith("#"):
            length += len(lines[index])
            index += 1
        return length - (len(lines[index - 1]) - len(lines[index - 1].rstrip("\r\n")))
    return length


def _asked(line: _Line) -> Dependency:
    """What a line asks for; one with another option asks for nothing by name."""
    option = line.text.replace("=", " ", 1).partition(" ")[0]
    if option in _EDITABLE:
        return dependency(line.text[len(option) + 1 :].strip(), line.span)
    if line.text.startswith("-"):
        return Dependency("", line.text, line.span)
    return dependency(line.text.partition(" --")[0], line.span)


def _chosen(text: str, line: _Line, row: Row, index: int) -> DependencyList | None:
    """The distributions for which a line says whether wheels will do."""
    option = next((option for option in _OF_BINARIES if line.text.startswith(option)), "")
    if not option:
        return None
    items: list[Dependency] = []
    position = line.span.start
    for name in line.text[len(option) + 1 :].split(","):
        position = text.find(name.strip(), position + 1 if items else line.span.start + len(option))
        items.append(dependency(name, Span(position, position + len(name.strip()))))
    places = Row(tuple(item.span for item in items))
    return DependencyList(option, "names", tuple(items), places, entry=(row, index), may_be_empty=False)
