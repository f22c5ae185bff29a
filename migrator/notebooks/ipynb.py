"""Jupyter notebooks: which cells there are, where their sources stand in the file, and the file with other sources.

The file is read by the standard library's decoder, value by value, so that the place of each is known. Only sources
that changed are written anew, in the form that the file has; all else keeps its bytes.
"""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import accumulate

from migrator.layout import Span, line_starts
from migrator.notebooks.text import CellText, Composer, free_token
from migrator.source import Place, Source, SourceError, newline_of

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\n\r]*")
_UNIT = re.compile(r"\\u[dD][89aAbB]\w\w\\u[dD][c-fC-F]\w\w|\\u\w{4}|\\.|[^\\]")
_ONCE = frozenset({"cells", "metadata", "nbformat", "cell_type", "source"})
_PYTHON = ("python", "ipython", "pyspark")

Element = tuple[str, str]  # a string as it reads and as it is written


class NoModuleError(Exception):
    """A notebook that this version does not edit; the message says why."""


@dataclass(frozen=True)
class Cell:
    """A code cell: its number among all cells, its source, and where that stands in the file."""

    number: int
    source: str
    span: Span


def decode(path: str, data: bytes) -> Source:
    """The code of a notebook as the text of a module.

    Raises SourceError for a file that is broken or cannot be edited.
    """
    try:
        text, cells = _read(data)
    except NoModuleError as error:
        raise SourceError(1, str(error)) from None
    notebook = JupyterNotebook(text, cells, _composed(text, cells))
    module = notebook.module.text
    return Source(path, data, module, "utf-8", data.startswith(codecs.BOM_UTF8), newline_of(module), notebook)


@lru_cache(maxsize=256)
def _read(data: bytes) -> tuple[str, tuple[Cell, ...]]:
    text = _text(data)
    return text, tuple(code_cells(text))


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(data.count(b"\n", 0, error.start) + 1, f"not valid utf-8: {error.reason}") from None


def named_in_code(data: bytes, names: Callable[[bytes], bool]) -> bool:
    """Whether the code of a notebook ``names`` Horovod.

    Raises what ``code_cells`` raises.
    """
    return any(names(cell.source.encode()) for cell in _read(data)[1])


def code_cells(text: str) -> list[Cell]:
    """The code cells of a notebook in Python.

    Raises SourceError for what is no notebook, NoModuleError for one in another language or format.
    """
    start = _BLANK.match(text).end()  # type: ignore[union-attr]
    try:
        document = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise SourceError(error.lineno, f"not valid JSON: {error.msg}") from None
    except RecursionError:
        raise SourceError(1, "the JSON nests too deeply") from None
    if not isinstance(document, dict):
        raise SourceError(1, "no notebook: it holds no cells")
    top = {key: (value, span) for key, value, span in _members(text, start)}
    _check_format(document)
    cells, span = top.get("cells", (None, Span(0, 0)))
    if not isinstance(cells, list):
        raise SourceError(1, "no notebook: it holds no cells")
    found = (_cell(text, number, value, place) for number, (value, place) in enumerate(_elements(text, span.start), 1))
    return [cell for cell in found if cell is not None]


def _check_format(document: dict[str, object]) -> None:
    version = document.get("nbformat")
    if "worksheets" in document or (isinstance(version, int) and version < 4):
        way = "save it with a current Jupyter (jupyter nbconvert --to notebook --nbformat 4), then migrate"
        raise NoModuleError(f"a notebook of format {version}, which is not edited: {way}")
    language = language_of(document)
    if language and not language.lower().startswith(_PYTHON):
        raise NoModuleError(f"a notebook in {language}, which is not edited")


def language_of(document: dict[str, object]) -> str:
    """The language that a notebook's metadata name; empty if they name none."""
    metadata = document.get("metadata")
    for key, name in (("application/vnd.databricks.v1+notebook", "language"), ("kernelspec", "language")):
        if isinstance(metadata, dict) and isinstance(holder := metadata.get(key), dict) and holder.get(name):
            return str(holder[name])
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    return str(info.get("name") or "") if isinstance(info, dict) else ""


def _cell(text: str, number: int, value: object, span: Span) -> Cell | None:
    if not isinstance(value, dict) or value.get("cell_type") != "code":
        return None
    found = {key: place for key, _, place in _members(text, span.start)}
    source = value.get("source", "")
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        raise SourceError(_line(text, span.start), f"cell {number}: its source is no text")
    joined = "".join(lines)
    if re.search("[\ud800-\udfff\0]", joined):
        raise SourceError(_line(text, span.start), f"cell {number}: half a character, or a NUL, in its code")
    return Cell(number, joined, found["source"]) if joined.strip() else None


def _members(text: str, start: int) -> Iterator[tuple[str, object, Span]]:
    """Keys, values and the places of values of the object that begins at ``start`` of a valid document."""
    seen: set[str] = set()
    at = _skip(text, start + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        if key in seen and key in _ONCE:
            raise SourceError(_line(text, at), f"the key {key!r} stands twice in one object")
        seen.add(key)
        at = _skip(text, _skip(text, at) + 1)
        value, end = _DECODER.raw_decode(text, at)
        yield key, value, Span(at, end)
        at = _next(text, end)


def _elements(text: str, start: int) -> Iterator[tuple[object, Span]]:
    """Values and places of the array that begins at ``start`` of a valid document."""
    at = _skip(text, start + 1)
    while text[at] != "]":
        value, end = _DECODER.raw_decode(text, at)
        yield value, Span(at, end)
        at = _next(text, end)


def _skip(text: str, at: int) -> int:
    return _BLANK.match(text, at).end()  # type: ignore[union-attr]


def _next(text: str, end: int) -> int:
    at = _skip(text, end)
    return _skip(text, at + 1) if text[at] == "," else at


def _line(text: str, offset: int) -> int:
    return bisect_right(line_starts(text), offset)


def _composed(text: str, cells: Sequence[Cell]) -> CellText:
    composer = Composer(free_token([cell.source for cell in cells]))
    for index, cell in enumerate(cells):
        try:
            composer.cell(index, cell.source)
        except SourceError as error:
            line = _line(text, cell.span.start)
            raise SourceError(line, f"cell {cell.number}, line {error.line}: {error.reason}") from None
    return composer.result()


@dataclass(frozen=True)
class JupyterNotebook:
    """A file with its code cells, and the text of the module that they make."""

    file: str
    code: tuple[Cell, ...]
    module: CellText

    @property
    def boundary(self) -> str:
        """How a comment begins that begins a cell."""
        return f"#{self.module.token} cell"

    def problem(self, before: str, after: str) -> str:
        """Why ``after``, the module's after edits of its code, cannot go back into the cells; empty if it can."""
        return self.module.problem(after)

    def place(self, offset: int) -> Place:
        """Where in the file ``offset`` of the module's text stands."""
        if not self.code:
            return Place(1, 1)
        index, inside = self.module.cell_and_offset(offset)
        cell = self.code[index]
        at = self._in_file(cell, inside)
        line = bisect_right(self.starts, at)
        number = cell.source.count("\n", 0, inside) + 1
        return Place(line, at - self.starts[line - 1] + 1, f"cell {cell.number}, line {number}: ")

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where lines of the file begin."""
        return line_starts(self.file)

    def _in_file(self, cell: Cell, offset: int) -> int:
        strings = _strings(self.file, cell.span)
        if offset >= len(cell.source):
            return cell.span.end - 1
        place = bisect_right(strings, offset, key=lambda string: string[0]) - 1
        start, _, span = strings[place]
        return span.start + 1 + _offsets(self.file[span.start + 1 : span.end - 1])[offset - start]

    def restored(self, text: str) -> str:
        """The file with the cells that ``text``, the module's after edits, is made of."""
        parts, position = [], 0
        for cell, source in zip(self.code, self.module.cells(text), strict=True):
            if source != cell.source:
                parts += [self.file[position : cell.span.start], self._written(cell, source)]
                position = cell.span.end
        return "".join(parts) + self.file[position:]

    def readable(self, text: str) -> str:
        """The cells of ``text`` as a person reads them, each under its number."""
        cells = zip(self.code, self.module.cells(text), strict=True)
        return "".join(f"# cell {cell.number}\n{source.rstrip()}\n" for cell, source in cells)

    def _written(self, cell: Cell, source: str) -> str:
        old = self.file[cell.span.start : cell.span.end]
        if old[0] != "[":
            lines = _merged(_written_lines(old[1:-1]), source.split("\n"), self._escape)
            return '"' + "\\n".join(lines) + '"'
        places = [span for _, _, span in _strings(self.file, cell.span)]
        elements = [(value, self.file[span.start : span.end]) for _, value, span in _strings(self.file, cell.span)]
        lines = _merged(elements, source.splitlines(keepends=True), lambda line: f'"{self._escape(line)}"')
        if not lines:
            return "[]"
        head, tail = self.file[cell.span.start : places[0].start], self.file[places[-1].end : cell.span.end]
        between = self.file[places[0].end : places[1].start] if len(places) > 1 else self._between(head)
        return head + between.join(lines) + tail

    def _between(self, head: str) -> str:
        """What parts the strings of a source that had one only."""
        if "\n" in head:
            return "," + head[1:]
        return ", " if re.search(r'"cells": ', self.file) else ","

    @cached_property
    def is_ascii(self) -> bool:
        """Whether the file writes characters beyond ASCII as escapes."""
        return self.file.isascii() and "\\u" in self.file

    def _escape(self, line: str) -> str:
        return json.dumps(line, ensure_ascii=self.is_ascii)[1:-1]


@lru_cache(maxsize=16)
def _strings(file: str, source: Span) -> tuple[tuple[int, str, Span], ...]:
    """The strings that a source consists of: where each begins in it, what it says, and where it stands in the file."""
    if file[source.start] != "[":
        return ((0, str(_DECODER.raw_decode(file, source.start)[0]), source),)
    found = [(str(value), span) for value, span in _elements(file, source.start)]
    starts = accumulate((len(value) for value, _ in found), initial=0)
    return tuple((start, value, span) for start, (value, span) in zip(starts, found, strict=False))


@lru_cache(maxsize=16)
def _offsets(literal: str) -> tuple[int, ...]:
    """Where each character of a string begins, as it is written, and the end."""
    return tuple(accumulate(map(len, _UNIT.findall(literal)), initial=0))


def _written_lines(literal: str) -> list[Element]:
    """The lines of a string as they read and as they are written, both without the ending."""
    lines: list[list[str]] = [[]]
    for unit in _UNIT.findall(literal):
        if unit == "\\n" or unit.lower() == "\\u000a":
            lines.append([])
        else:
            lines[-1].append(unit)
    return [(json.loads(f'"{"".join(line)}"'), "".join(line)) for line in lines]


def _merged(old: Sequence[Element], new: Sequence[str], write: Callable[[str], str]) -> list[str]:
    """``new`` as it is written, where it equals what was there as that was."""
    matcher = SequenceMatcher(None, [value for value, _ in old], new, autojunk=False)
    lines: list[str] = []
    for tag, start, end, first, last in matcher.get_opcodes():
        lines += [written for _, written in old[start:end]] if tag == "equal" else map(write, new[first:last])
    return lines
