"""Programs between an original and its migration: some of the edits made, others left out.

Such a program uses Horovod and what replaced it side by side, which works with the stand-in. So imports, joining and
leaving, and new functions of both are always there; every other stretch that differs is an edit that can be left out.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from migrator.parity.statements import Lines, span, statements

_JOINS_OR_LEAVES = re.compile(r"\b(\w+\.(init|shutdown)|init_process_group|destroy_process_group)\s*\(")
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Files = Mapping[str, str]


@dataclass(frozen=True, order=True)
class Edit:
    """A stretch of lines of a file that differs: the lines of the original give way to those of the migrated file."""

    path: str
    original: Lines
    migrated: Lines


@dataclass(frozen=True)
class _Text:
    """A file as lines, with its statements, and its imports, functions and classes by what they are called."""

    lines: Sequence[str]
    statements: Sequence[Lines]
    definitions: Mapping[str, Lines]

    def text(self, lines: Lines) -> str:
        return "".join(self.lines[lines.first - 1 : lines.last])

    @cached_property
    def continuations(self) -> frozenset[int]:
        """The lines on which a statement goes on."""
        return frozenset(line for each in self.statements for line in range(each.first + 1, each.last + 1))


def edits(original: Files, migrated: Files) -> list[Edit]:
    """The edits that can be left out one by one, in order.

    Raises SyntaxError for a file that does not parse.
    """
    return [edit for path in sorted(original) if path in migrated for edit in _of_file(path, original, migrated)]


def hybrid(original: Files, migrated: Files, left_out: Set[Edit]) -> dict[str, str]:
    """The files of the program in which the edits ``left_out`` are not made."""
    changed = {edit.path: "".join(_pieces(edit.path, original, migrated, left_out)) for edit in left_out}
    return {**migrated, **changed}


def _of_file(path: str, original: Files, migrated: Files) -> Iterator[Edit]:
    old, new = _read(original[path]), _read(migrated[path])
    for before, after in _stretches(old, new):
        if _is_edit(old, before, new) or _is_edit(new, after, old):
            yield Edit(path, before, after)


def _pieces(path: str, original: Files, migrated: Files, left_out: Set[Edit]) -> Iterator[str]:
    old, new = _read(original[path]), _read(migrated[path])
    position = 1
    for before, after in _stretches(old, new):
        yield old.text(Lines(position, before.first - 1))
        if Edit(path, before, after) in left_out:
            yield from (new.text(each) for each in _neutral(new, after, old))
            yield old.text(before)
        else:
            yield from (old.text(each) for each in _neutral(old, before, new))
            yield new.text(after)
        position = before.last + 1
    yield old.text(Lines(position, len(old.lines)))


def _is_edit(text: _Text, lines: Lines, other: _Text) -> bool:
    """Whether ``lines`` hold a statement that is not neutral."""
    neutral = _neutral(text, lines, other)
    return any(not any(_contains(each, statement) for each in neutral) for statement in _within(text.statements, lines))


def _neutral(text: _Text, lines: Lines, other: _Text) -> list[Lines]:
    """What of ``lines`` a hybrid always has: definitions that ``other`` lacks, joining and leaving."""
    new = [each for name, each in text.definitions.items() if name not in other.definitions]
    joining = [each for each in text.statements if _JOINS_OR_LEAVES.search(text.text(each))]
    found = sorted({*_within(new, lines), *_within(joining, lines)})
    return [each for each in found if not any(each != outer and _contains(outer, each) for outer in found)]


def _within(found: Sequence[Lines], lines: Lines) -> list[Lines]:
    return [each for each in found if _contains(lines, each)]


def _contains(outer: Lines, inner: Lines) -> bool:
    return outer.first <= inner.first and inner.last <= outer.last


def _stretches(old: _Text, new: _Text) -> list[tuple[Lines, Lines]]:
    """The stretches of whole statements that differ, in order; an empty one has its last line before its first."""
    found: list[tuple[Lines, Lines]] = []
    for tag, *ends in difflib.SequenceMatcher(None, old.lines, new.lines, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        before, after = _widened(Lines(ends[0] + 1, ends[1]), Lines(ends[2] + 1, ends[3]), old, new)
        while found and (found[-1][0].last >= before.first or found[-1][1].last >= after.first):
            earlier = found.pop()
            before = Lines(earlier[0].first, max(earlier[0].last, before.last))
            after = Lines(earlier[1].first, max(earlier[1].last, after.last))
        found.append((before, after))
    return [pair for before, after in found for pair in _one_by_one(before, after, old, new)]


def _one_by_one(before: Lines, after: Lines, old: _Text, new: _Text) -> list[tuple[Lines, Lines]]:
    """The statements of both stretches in pairs, if they are as many and nothing stands between them."""
    pairs = list(zip(_within(old.statements, before), _within(new.statements, after), strict=False))
    olds, news = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return pairs if _tiles(olds, before) and _tiles(news, after) else [(before, after)]


def _tiles(parts: Sequence[Lines], whole: Lines) -> bool:
    return [line for part in parts for line in range(part.first, part.last + 1)] == [
        *range(whole.first, whole.last + 1)
    ]


def _widened(before: Lines, after: Lines, old: _Text, new: _Text) -> tuple[Lines, Lines]:
    """Both stretches with as many of the equal lines around them as it takes not to cut a statement."""
    while before.first in old.continuations or after.first in new.continuations:
        before, after = Lines(before.first - 1, before.last), Lines(after.first - 1, after.last)
    while before.last + 1 in old.continuations or after.last + 1 in new.continuations:
        before, after = Lines(before.first, before.last + 1), Lines(after.first, after.last + 1)
    return before, after


def _read(source: str) -> _Text:
    definitions = {_name(node): span(node) for node in ast.walk(ast.parse(source)) if isinstance(node, _DEFINITIONS)}
    return _Text(source.splitlines(keepends=True), statements(source), definitions)


def _name(node: ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    return ast.unparse(node) if isinstance(node, ast.Import | ast.ImportFrom) else f"{type(node).__name__} {node.name}"
