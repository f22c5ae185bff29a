"""Programs between an original and its migration: some of the edits made, others left out.

Such a program uses Horovod and what replaced it side by side, which works with the stand-in. So imports, joining and
leaving, and new functions of both are always there; every other statement that differs is an edit that can be left out.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from migrator.parity.statements import Lines, span, statements

_JOINS_OR_LEAVES = re.compile(r"\b(\w+\.(init|shutdown)|init_process_group|destroy_process_group|join_workers)\s*\(")
_WORDS = re.compile(r"\w+")
_ALIKE = 0.5
_MOST_PAIRS = 10_000
Files = Mapping[str, str]
Pair = tuple[Lines, Lines]


@dataclass(frozen=True, order=True)
class Edit:
    """A stretch of lines of a file that differs: the lines of the original give way to those of the migrated file."""

    path: str
    original: Lines
    migrated: Lines


@dataclass(frozen=True)
class _Text:
    """A file as lines, with its statements: their lines, and what they are by all of their lines, bodies included."""

    lines: Sequence[str]
    statements: Sequence[Lines]
    nodes: Mapping[Lines, ast.stmt]

    def text(self, lines: Lines) -> str:
        return "".join(self.lines[lines.first - 1 : lines.last])

    def indentation(self, line: int) -> int:
        return len(self.lines[line - 1]) - len(self.lines[line - 1].lstrip())

    @cached_property
    def continuations(self) -> frozenset[int]:
        """The lines on which a statement goes on."""
        return frozenset(line for each in self.statements for line in range(each.first + 1, each.last + 1))

    def first_statement(self, lines: Lines) -> Lines | None:
        """The first of its statements in ``lines``, if any is."""
        return next((each for each in self.statements if _contains(lines, each)), None)

    @cached_property
    def definitions(self) -> frozenset[str]:
        """Its imports, functions and classes by what they are called."""
        return frozenset(filter(None, map(_definition, self.nodes.values())))


def edits(original: Files, migrated: Files) -> list[list[Edit]]:
    """The edits that can be left out one by one, in order, those together that take each other's place.

    Raises SyntaxError for a file that does not parse.
    """
    groups: list[list[Edit]] = []
    for edit in (edit for path in sorted(original) if path in migrated for edit in _of_file(path, original, migrated)):
        if groups and _is_one_sided(edit) and _is_one_sided(groups[-1][-1]) and _follows(edit, groups[-1][-1]):
            groups[-1].append(edit)
        else:
            groups.append([edit])
    return groups


def hybrid(original: Files, migrated: Files, left_out: Set[Edit]) -> dict[str, str]:
    """The files of the program in which the edits ``left_out`` are not made; they need not parse."""
    changed = {edit.path: "".join(_pieces(edit.path, original, migrated, left_out)) for edit in left_out}
    return {**migrated, **changed}


def joined(found: Sequence[Edit]) -> tuple[Edit, ...]:
    """The same edits with those that follow one another made one."""
    whole: list[Edit] = []
    for edit in sorted(found):
        if whole and _follows(edit, whole[-1]):
            first = whole.pop()
            edit = Edit(edit.path, _through(first.original, edit.original), _through(first.migrated, edit.migrated))
        whole.append(edit)
    return tuple(whole)


def _follows(edit: Edit, earlier: Edit) -> bool:
    ends = earlier.path, earlier.original.last + 1, earlier.migrated.last + 1
    return ends == (edit.path, edit.original.first, edit.migrated.first)


def _is_one_sided(edit: Edit) -> bool:
    return any(lines.last < lines.first for lines in (edit.original, edit.migrated))


def _through(first: Lines, last: Lines) -> Lines:
    return Lines(first.first, last.last)


def _of_file(path: str, original: Files, migrated: Files) -> Iterator[Edit]:
    old, new = _read(original[path]), _read(migrated[path])
    for before, after in _pairs(old, new):
        if _is_edit(old, before, new) or _is_edit(new, after, old):
            yield Edit(path, before, after)


def _pieces(path: str, original: Files, migrated: Files, left_out: Set[Edit]) -> Iterator[str]:
    old, new = _read(original[path]), _read(migrated[path])
    position = 1
    for before, after in _pairs(old, new):
        yield old.text(Lines(position, before.first - 1))
        if Edit(path, before, after) in left_out:
            yield new.text(after) if _is_neutral(new, after, old) else ""
            yield old.text(before)
        else:
            yield old.text(before) if _is_neutral(old, before, new) else ""
            yield new.text(after)
        position = before.last + 1
    yield old.text(Lines(position, len(old.lines)))


def _is_edit(text: _Text, lines: Lines, other: _Text) -> bool:
    return text.first_statement(lines) is not None and not _is_neutral(text, lines, other)


def _is_neutral(text: _Text, lines: Lines, other: _Text) -> bool:
    """Whether a hybrid always has these lines: a definition that ``other`` lacks, joining, leaving, a try of that."""
    first = text.first_statement(lines)
    whole = [each for each in text.nodes if first and each.first == first.first and _contains(lines, each)]
    return bool(whole) and _is_neutral_node(text.nodes[max(whole)], other)


def _is_neutral_node(node: ast.stmt, other: _Text) -> bool:
    if name := _definition(node):
        return name not in other.definitions
    if isinstance(node, ast.If | ast.Try):
        parts = [
            each for each in ast.walk(node) if isinstance(each, ast.stmt) and not isinstance(each, ast.If | ast.Try)
        ]
        neutral = [each for each in parts if _is_neutral_node(each, other)]
        return bool(neutral) and all(each in neutral or _is_plain(each) for each in parts)
    return not hasattr(node, "body") and bool(_JOINS_OR_LEAVES.search(ast.unparse(node)))


def _is_plain(node: ast.stmt) -> bool:
    """Whether a statement does nothing, or only names a constant, as in the place of an import that failed."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant))


def _contains(outer: Lines, inner: Lines) -> bool:
    return outer.first <= inner.first and inner.last <= outer.last


def _pairs(old: _Text, new: _Text) -> list[Pair]:
    """What differs, statement by statement, in order; nothing is lines of which the last comes before the first."""
    return [pair for stretch in _stretches(old, new) for pair in _aligned(old, new, *stretch)]


def _stretches(old: _Text, new: _Text) -> list[Pair]:
    """The stretches of whole statements that differ, in order."""
    found: list[Pair] = []
    for tag, *ends in difflib.SequenceMatcher(None, old.lines, new.lines, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        before, after = _widened(Lines(ends[0] + 1, ends[1]), Lines(ends[2] + 1, ends[3]), old, new)
        while found and (found[-1][0].last >= before.first or found[-1][1].last >= after.first):
            earlier = found.pop()
            before = Lines(earlier[0].first, max(earlier[0].last, before.last))
            after = Lines(earlier[1].first, max(earlier[1].last, after.last))
        found.append((before, after))
    return found


def _widened(before: Lines, after: Lines, old: _Text, new: _Text) -> Pair:
    """Both stretches with as many of the equal lines around them as it takes not to cut a statement."""
    while before.first in old.continuations or after.first in new.continuations:
        before, after = Lines(before.first - 1, before.last), Lines(after.first - 1, after.last)
    while before.last + 1 in old.continuations or after.last + 1 in new.continuations:
        before, after = Lines(before.first, before.last + 1), Lines(after.first, after.last + 1)
    return before, after


def _aligned(old: _Text, new: _Text, before: Lines, after: Lines) -> Iterator[Pair]:
    """The statements of a stretch, those that are alike in pairs, the others each against nothing."""
    ours, theirs = _units(old, before), _units(new, after)
    position, other_position = before.first, after.first
    alike = _likenesses([old.text(each) for each in ours], [new.text(each) for each in theirs])
    for place, other_place in _matched(alike, range(len(ours)), range(len(theirs))):
        own = Lines(position, position - 1) if place is None else ours[place]
        other = Lines(other_position, other_position - 1) if other_place is None else theirs[other_place]
        position, other_position = own.last + 1, other.last + 1
        yield own, other
    if position <= before.last or other_position <= after.last:
        yield Lines(position, before.last), Lines(other_position, after.last)


def _likenesses(ours: Sequence[str], theirs: Sequence[str]) -> dict[tuple[int, int], float]:
    """How much of their words two texts share, by their places, where that is enough to take them for the same."""
    if len(ours) * len(theirs) > _MOST_PAIRS:
        return {}
    words, others = ([Counter(_WORDS.findall(text)) for text in side] for side in (ours, theirs))
    pairs = {(i, j): _likeness(own, other) for i, own in enumerate(words) for j, other in enumerate(others)}
    return {places: likeness for places, likeness in pairs.items() if likeness >= _ALIKE}


def _matched(
    alike: Mapping[tuple[int, int], float], ours: range, theirs: range
) -> Iterator[tuple[int | None, int | None]]:
    """Places of both sides in order, the most alike in pairs."""
    inside = [pair for pair in alike if pair[0] in ours and pair[1] in theirs]
    if not inside:
        yield from ((i, None) for i in ours)
        yield from ((None, j) for j in theirs)
        return
    i, j = max(inside, key=lambda pair: (alike[pair], -abs(pair[0] - pair[1])))
    yield from _matched(alike, range(ours.start, i), range(theirs.start, j))
    yield i, j
    yield from _matched(alike, range(i + 1, ours.stop), range(j + 1, theirs.stop))


def _likeness(first: Counter[str], second: Counter[str]) -> float:
    return 2 * (first & second).total() / ((first + second).total() or 1)


def _units(text: _Text, lines: Lines) -> list[Lines]:
    """The statements in ``lines``, each with what is above it and, as far as it lies there, its body."""
    starts: list[Lines] = []
    for each in (each for each in text.statements if _contains(lines, each)):
        if starts and text.indentation(each.first) > text.indentation(starts[-1].first):
            starts[-1] = Lines(starts[-1].first, each.last)
        else:
            starts.append(each)
    firsts = [lines.first, *(each.last + 1 for each in starts)]
    return [Lines(first, each.last) for first, each in zip(firsts, starts, strict=False)]


def _read(source: str) -> _Text:
    nodes = {span(node): node for node in reversed(list(ast.walk(ast.parse(source)))) if isinstance(node, ast.stmt)}
    return _Text(source.splitlines(keepends=True), statements(source), nodes)


def _definition(node: ast.stmt) -> str:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return ast.unparse(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return f"{type(node).__name__} {node.name}"
    return ""
