"""Print a tree once and note where its nodes stand in the text.

LibCST's own position providers cost several times its printer; here only the nodes that an edit or a finding names are
looked at, while the text is put together.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import TracebackType

import libcst as cst
from libcst._nodes.internal import CodegenState


class RoundTripError(Exception):
    """The printed tree is not the text that was parsed."""


@dataclass(frozen=True)
class Span:
    """Offsets into the text: the characters from ``start`` up to, not including, ``end``."""

    start: int
    end: int

    def holds(self, other: Span) -> bool:
        """Whether ``other`` lies within this span."""
        return self.start <= other.start and other.end <= self.end


class _Mark:
    """Context in which a node's own text, without its parentheses and leading lines, is printed."""

    __slots__ = ("node", "printer")

    def __init__(self, printer: _Printer, node: cst.CSTNode) -> None:
        self.printer = printer
        self.node = node

    def __enter__(self) -> None:
        if id(self.node) in self.printer.wanted:
            self.printer.begin[id(self.node)] = len(self.printer.tokens)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if id(self.node) in self.printer.wanted:
            self.printer.end[id(self.node)] = len(self.printer.tokens)


class _Printer(CodegenState):
    """A code generator that counts tokens at the start and end of wanted nodes, and at every indentation."""

    def __init__(self, tree: cst.Module, wanted: Collection[int]) -> None:
        super().__init__(default_indent=tree.default_indent, default_newline=tree.default_newline)
        self.wanted = wanted
        self.begin: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.outer: dict[int, tuple[int, int]] = {}
        self.first: list[int] = []
        self.indentations: list[tuple[int, int]] = []

    def add_indent_tokens(self) -> None:
        self.indentations.append((len(self.tokens), len(self.indent_tokens)))
        self.tokens.extend(self.indent_tokens)

    def before_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            self.begin[id(node)] = len(self.tokens)
            self.first.append(len(self.tokens))

    def after_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            self.end.setdefault(id(node), len(self.tokens))
            self.outer[id(node)] = self.first.pop(), len(self.tokens)

    def record_syntactic_position(  # type: ignore[override]
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> _Mark:
        return _Mark(self, node)


@dataclass(frozen=True)
class Layout:
    """Where the wanted nodes of one module stand in its text."""

    text: str
    spans: Mapping[int, Span]
    outer_spans: Mapping[int, Span]
    indentations: tuple[tuple[Span, ...], ...]
    line_starts: tuple[int, ...]

    def span(self, node: cst.CSTNode) -> Span:
        """The node's own text: without parentheses around it, comments above it, or the indentation before it."""
        return self.spans[id(node)]

    def outer_span(self, node: cst.CSTNode) -> Span:
        """The node's text with the parentheses around it; of a statement, with the comments above it."""
        return self.outer_spans[id(node)]

    def line_start(self, offset: int) -> int:
        """The offset at which the line that holds ``offset`` begins."""
        return self.line_starts[bisect_right(self.line_starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """The offset after the line ending of the line that holds ``offset``."""
        place = bisect_right(self.line_starts, offset)
        return self.line_starts[place] if place < len(self.line_starts) else len(self.text)

    def indentation(self, offset: int) -> str:
        """The white space with which the line that holds ``offset`` begins."""
        line = self.text[self.line_start(offset) : offset]
        return line[: len(line) - len(line.lstrip(" \t\f"))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of ``offset``, both from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def levels(self, span: Span) -> Iterator[tuple[Span, ...]]:
        """For each line that begins within ``span``, the pieces of its indentation, outermost first."""
        return (pieces for pieces in self.indentations if pieces and span.start <= pieces[0].start < span.end)


_LINE_END = re.compile(r"\r\n|\n|\r")


def line_starts(text: str) -> tuple[int, ...]:
    """The offsets at which lines begin."""
    return (0, *(match.end() for match in _LINE_END.finditer(text)))


def lay_out(tree: cst.Module, text: str, nodes: Collection[cst.CSTNode]) -> Layout:
    """Print ``tree`` and find ``nodes`` in ``text``, from which it was parsed.

    Raises RoundTripError where the tree lost anything but form feeds.
    """
    printer = _Printer(tree, {id(node) for node in nodes})
    tree._codegen(printer)
    starts = list(accumulate(map(len, printer.tokens), initial=0))
    shift = _shifts("".join(printer.tokens), text)

    def at(token: int) -> int:
        return shift(starts[min(token, len(starts) - 1)])

    spans = {key: Span(at(first), at(printer.end[key])) for key, first in printer.begin.items()}
    outer = {key: Span(at(first), at(last)) for key, (first, last) in printer.outer.items()}
    indentations = (
        tuple(
            tuple(Span(at(first + level), at(first + level + 1)) for level in range(count))
            for first, count in printer.indentations
            if count
        )
        if nodes
        else ()
    )
    return Layout(text, spans, outer, indentations, line_starts(text))


@dataclass(frozen=True)
class _Shift:
    """Maps an offset of the printed text to the original: LibCST drops some form feeds and repeats others."""

    places: tuple[int, ...]
    amounts: tuple[int, ...]

    def __call__(self, offset: int) -> int:
        return offset + self.amounts[bisect_right(self.places, offset)]


def _shifts(printed: str, text: str) -> _Shift:
    if printed == text:
        return _Shift((), (0,))
    places: list[int] = []
    amounts = [0]
    here = there = 0
    while here < len(printed) or there < len(text):
        ours, theirs = printed[here : here + 1], text[there : there + 1]
        if ours == theirs or (ours, theirs) == ("\n", "\r"):
            here, there = here + 1, there + 1
        elif "\f" in (ours, theirs):
            step = 1 if theirs == "\f" else -1
            places.append(here)
            amounts.append(amounts[-1] + step)
            here, there = here + (step < 0), there + (step > 0)
        else:
            raise RoundTripError("the parser does not keep every character of this file")
    return _Shift(tuple(places), tuple(amounts))
