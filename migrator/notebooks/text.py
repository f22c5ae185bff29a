"""The text of a module, made of a notebook's cells, with what is not Python set aside; and cells made of it again."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from migrator.layout import Span
from migrator.notebooks.magics import CutOffError, FragmentKind, Header, Piece, header_of, kind_of, pieces_of
from migrator.source import SourceError

_INDENTED = re.compile(r"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\n|\r))*[ \t]+[^\s#]")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


@dataclass(frozen=True)
class Fragment:
    """What stands in a notebook and is not Python of its own: a shell line, a file that a cell writes, SQL.

    ``name`` is the magic's (``!``, ``sh``, ``pip``, ``writefile``), ``argument`` the rest of its line where ``text`` is
    the body of a cell, and ``span`` where that is in the module's text: comments of which each line begins with
    ``prefix``. ``is_cell`` says that it is all of a cell.
    """

    kind: FragmentKind
    name: str
    argument: str
    text: str
    span: Span
    cell: int
    prefix: str = ""
    breaks: tuple[tuple[str, str], ...] = ()
    is_cell: bool = False

    def embedded(self, text: str) -> str:
        """``text`` as it stands in the module in place of this fragment's: a replacement for its ``span``."""
        if not self.is_cell:
            return escaped(text, self.breaks)
        first, *rest = [match[0] for match in _LINE.finditer(text)] or [""]
        return first + "".join((self.prefix if line.strip() else self.prefix.rstrip(" ")) + line for line in rest)


@dataclass(frozen=True)
class Chunk:
    """From ``start`` the module's text is that of a cell from ``offset``."""

    start: int
    cell: int
    offset: int


@dataclass(frozen=True)
class CellText:
    """The cells' code as one text. A ``token`` that occurs nowhere in the cells marks what was put in."""

    text: str
    token: str
    chunks: tuple[Chunk, ...]
    fragments: tuple[Fragment, ...]
    runs: Mapping[str, str]
    prefixes: Mapping[str, str]

    def cell_and_offset(self, offset: int) -> tuple[int, int]:
        """The index of the cell in which ``offset`` of the module's text lies, and where in its source."""
        place = bisect_right(self.chunks, offset, key=lambda chunk: chunk.start) - 1
        chunk = self.chunks[max(place, 0)]
        return chunk.cell, chunk.offset + max(0, offset - chunk.start)

    def cells(self, text: str) -> list[str]:
        """The sources of the cells that ``text``, the module's after edits, is made of.

        Raises SourceError where an edit has taken away or doubled what stands for a magic or for the start of a cell.
        """
        parts = re.split(rf"(?m)^#{self.token} cell(?:: ([^\n]*))?\n", text)
        if len(parts) != 2 * self.count + 1 or parts[0]:
            raise SourceError(1, "an edit would reach beyond its cell")
        return [self._cell(head, body) for head, body in zip(parts[1::2], parts[2::2], strict=True)]

    @property
    def script(self) -> str:
        """The module without magics: for Python that is not IPython's."""
        token = self.token
        text = re.sub(rf"get_ipython\(\)\.{token}_\d+(?:; | or )", "", self.text)
        text = re.sub(rf"get_ipython\(\)\.{token}_\d+|from {token}_\d+ import \*", "None", text)
        future = re.findall(r"(?m)^from __future__ import \w.*", text)
        text = re.sub(r"(?m)^from __future__ import \w.*", "pass", text)
        return "".join(f"{line}\n" for line in future) + text.replace("if get_ipython():  #", "if True:  #")

    @property
    def count(self) -> int:
        """The number of cells."""
        return self.text.count(f"#{self.token} cell")

    def _cell(self, head: str | None, body: str) -> str:
        restored = self._restored(body.removesuffix("\n"))
        return (unescaped(head, breaks_of(self.token)) if head is not None else "") + restored

    def _restored(self, body: str) -> str:
        token = self.token
        for pattern in (
            rf"get_ipython\(\)\.{token}_\d+  #{token} (?P<magic>[^\r\n]*)",
            rf"from {token}_\d+ import \*  #{token} (?P<magic>[^\r\n]*)",
            rf"(?m)^#{token}\| ?(?P<magic>[^\r\n]*)",
        ):
            body = re.sub(pattern, lambda match: unescaped(match["magic"], breaks_of(token)), body)
        body = re.sub(rf"(?m)^if get_ipython\(\):  #{token}\|\n", "", body)
        # A magic that ran one statement goes with it.
        body = re.sub(rf"(?m)^get_ipython\(\)\.{token}_\d+[ \t]*(?:\r\n|\n|\r|\Z)", "", body)
        running = rf"get_ipython\(\)\.{token}_\d+(?:; | or )"
        body = re.sub(running, lambda match: self.prefixes.get(match[0], match[0]), body)
        if token in body:
            raise SourceError(1, "an edit would take a magic apart")
        return body

    def problem(self, text: str) -> str:
        """Why ``text``, the module's after edits, cannot be made into cells again; empty if it can."""
        if self._placed(self.text) != self._placed(text):
            return "an edit would take away or repeat a line of the notebook that is not Python"
        try:
            self.cells(text)
        except SourceError as error:
            return error.reason
        return ""

    def _placed(self, text: str) -> list[str]:
        return re.findall(rf"get_ipython\(\)\.{self.token}_\d+  #|from {self.token}_\d+ import", text)


def breaks_of(token: str) -> tuple[tuple[str, str], ...]:
    """How line endings are written in a comment."""
    return ("\r", f"{token}r"), ("\n", f"{token}n")


def escaped(text: str, breaks: Sequence[tuple[str, str]]) -> str:
    """``text`` on one line."""
    for character, code in breaks:
        text = text.replace(character, code)
    return text


def unescaped(text: str, breaks: Sequence[tuple[str, str]]) -> str:
    """What ``escaped`` made one line of."""
    for character, code in breaks:
        text = text.replace(code, character)
    return text


def free_token(sources: Sequence[str]) -> str:
    """A word that occurs in none of ``sources``."""
    candidates = (f"_cell{number or ''}_" for number in count())
    return next(token for token in candidates if not any(token in source for source in sources))


@dataclass
class Composer:
    """Puts the text of a module together, cell by cell."""

    token: str
    parts: list[str] = field(default_factory=list)
    length: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    fragments: list[Fragment] = field(default_factory=list)
    runs: dict[str, str] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    magics: int = 0

    def put(self, text: str, cell: int, offset: int) -> Span:
        """Add ``text``, which stands for what is at ``offset`` of a cell."""
        self.chunks.append(Chunk(self.length, cell, offset))
        self.parts.append(text)
        self.length += len(text)
        return Span(self.length - len(text), self.length)

    def result(self) -> CellText:
        """What was put together."""
        text = "".join(self.parts)
        return CellText(text, self.token, tuple(self.chunks), tuple(self.fragments), self.runs, self.prefixes)

    def cell(self, index: int, source: str) -> None:
        """Add a cell; raises SourceError (its line that of the cell) where the code of a cell is cut off."""
        header = header_of(source)
        if header is None:
            self.put(f"#{self.token} cell\n", index, 0)
            self.code(index, source, 0)
        else:
            self.put(f"#{self.token} cell: ", index, 0)
            head = self.put(escaped(source[: header.end], breaks_of(self.token)), index, 0)
            self.put("\n", index, header.end)
            self.headed(index, source, header, head)
        self.put("\n", index, len(source))

    def headed(self, index: int, source: str, header: Header, head: Span) -> None:
        """Add what follows a header, and note what that makes of it."""
        kind, name, argument = kind_of(source[: header.end].strip())
        if not header.is_python:
            prefix = f"#{self.token}| "
            start = self.length + len(prefix)
            self.body(index, source, header.end, prefix)
            span = Span(min(start, self.length), self.length)
            text = source[header.end :]
            self.fragments.append(Fragment(kind, name, argument, text, span, index, prefix, is_cell=True))
            return
        if header.rest:
            self.fragments.append(Fragment("code", name, "", header.rest, head, index))
        self.code(index, source, header.end)

    def body(self, index: int, source: str, start: int, prefix: str) -> None:
        """Add lines that are not Python, as comments."""
        for match in _LINE.finditer(source, start):
            self.put(prefix, index, match.start())
            self.put(match[0], index, match.start())

    def code(self, index: int, source: str, start: int) -> None:
        """Add Python with magics among it; IPython takes the indentation of a cell's first line off all of them."""
        if _INDENTED.match(source, start):
            self.put(f"if get_ipython():  #{self.token}|\n", index, start)
        try:
            for piece in pieces_of(source, start):
                self.piece(index, source, piece)
        except CutOffError as error:
            line = source.count("\n", 0, error.args[0]) + 1
            raise SourceError(line, "broken syntax: the code of the cell is cut off") from None

    def piece(self, index: int, source: str, piece: Piece) -> None:
        """Add a stretch of a cell."""
        text = source[piece.span.start : piece.span.end]
        if piece.kind == "code":
            self.put(text, index, piece.span.start)
            return
        name = f"{self.token}_{self.magics}"
        self.magics += 1
        if piece.kind in ("prefix", "assigned-prefix"):
            placeholder = f"get_ipython().{name}" + ("; " if piece.kind == "prefix" else " or ")
            self.prefixes[placeholder] = text
            span = self.put(placeholder, index, piece.span.start)
            if "-" in text:
                self.fragments.append(Fragment("code", text.split()[0], "", text, span, index))
            return
        kind, word, argument = kind_of(text)
        is_at_top = piece.kind == "magic" and source[: piece.span.start].rpartition("\n")[2] == ""
        if kind == "run" and is_at_top:
            self.runs[name] = argument
            self.put(f"from {name} import *  #{self.token} ", index, piece.span.start)
        else:
            self.put(f"get_ipython().{name}  #{self.token} ", index, piece.span.start)
        breaks = breaks_of(self.token)
        span = self.put(escaped(text, breaks), index, piece.span.start)
        self.fragments.append(Fragment(kind, word, argument, text, span, index, breaks=breaks))
