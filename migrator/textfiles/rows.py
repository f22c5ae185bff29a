"""Items in a row, of which some go: lines, elements of an array, pairs of a mapping, statements of a body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from migrator.layout import Span
from migrator.textfiles.document import TextEdit


@dataclass(frozen=True, eq=False)
class Row:
    """Where the items stand, in order; ``separator`` is what may follow one on its last line.

    In a tuple of Python a single item needs one.
    """

    items: tuple[Span, ...]
    separator: str = ","
    is_tuple: bool = False

    def without(self, text: str, gone: Mapping[int, str]) -> Iterator[TextEdit]:
        """The edits by which items, named by their places, give way to a new text, or to nothing.

        An item that has its lines to itself takes them along, with the comment behind it.
        """
        empty = [index for index, new in sorted(gone.items()) if not new]
        left = [index for index in range(len(self.items)) if index not in empty]
        if self.is_tuple and empty and len(left) == 1:
            yield self._single(text, gone.get(left[0], ""), left[0])
            return
        yield from (TextEdit(self.items[index], new) for index, new in gone.items() if new)
        lines: dict[int, Span | None] = {}
        for place in empty:
            is_cut_before = place - 1 in lines and lines[place - 1] is None
            is_continued = is_cut_before and "\\" in text[self.items[place - 1].end : self.items[place].start]
            lines[place] = None if is_continued else whole_lines(text, self.items[place], self.separator)
        yield from (TextEdit(place, "") for place in lines.values() if place is not None)
        run: list[int] = []
        for index in (*(index for index in empty if lines[index] is None), None):
            if run and index != run[-1] + 1:
                yield self._cut(text, run[0], run[-1], lines)
                run = []
            if index is not None:
                run.append(index)

    def _single(self, text: str, new: str, left: int) -> TextEdit:
        start, end = self.items[0].start, self.items[-1].end
        item = new or text[self.items[left].start : self.items[left].end]
        return TextEdit(Span(start, end + self._behind(text, end)), item + self.separator)

    def _cut(self, text: str, first: int, last: int, lines: Mapping[int, Span | None]) -> TextEdit:
        """The edit for items that share lines with others; ``lines`` are the places of those that go with theirs."""
        start, end = self.items[first].start, self.items[last].end
        if last + 1 < len(self.items) and last + 1 not in lines:
            return TextEdit(Span(start, self.items[last + 1].start), "")
        if first and first - 1 not in lines and "#" not in text[self.items[first - 1].end : start]:
            return TextEdit(Span(self.items[first - 1].end, end), "")
        return TextEdit(Span(start, end + self._behind(text, end)), "")

    def _behind(self, text: str, end: int) -> int:
        """The length of a separator behind the last item, with the blanks before it."""
        rest = text[end : end + 80]
        blank = len(rest) - len(rest.lstrip())
        return blank + 1 if self.separator and rest[blank : blank + 1] == self.separator else 0


def whole_lines(text: str, span: Span, separator: str = "") -> Span | None:
    """The lines of ``span`` with the end of the last, where nothing else but a comment stands on them.

    A statement, which a semicolon may end, takes along the blank line behind it where another stands before it.
    """
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.end)
    end = len(text) if end < 0 else end + 1
    rest = text[span.end : end].strip()
    rest = rest.removeprefix(separator).lstrip() if separator else rest
    if text[start : span.start].strip():
        return None
    if _is_continued(text, start):
        return Span(start, end) if rest == "\\" else None
    if rest and not rest.startswith("#"):
        return None
    before = text[:start].removesuffix("\n").removesuffix("\r")
    if separator == ";" and (not start or before.endswith("\n")):
        end += len(text[end:]) - len(text[end:].removeprefix("\r\n").removeprefix("\n"))
    return Span(start, end)


def _is_continued(text: str, start: int) -> bool:
    """Whether the line before ``start`` goes on, or those above the comments between."""
    while start:
        before = text.rfind("\n", 0, start - 1) + 1
        line = text[before:start].strip()
        if not line.startswith("#"):
            return line.endswith("\\")
        start = before
    return False
