"""Edits as data, and the text that they make of a module.

An edit names nodes of the original tree. Everything outside the named nodes keeps its bytes; a part of the original
that a replacement names is edited first and then set in, so nested edits compose; comments inside what goes are moved
above the statement that held them.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeGuard

import libcst as cst

from migrator.bindings import Index, children_of, dotted_name
from migrator.layout import Layout, Span
from migrator.verify import comment_spans

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_BLANK_LINE = re.compile(r"[ \t]*(\r\n|\n|\r)")
_ATOMS = (
    *(cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber, cst.BaseString),
    *(cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp),
)
Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement


@dataclass(frozen=True)
class Template:
    """New code; ``{name}`` stands for the part of the original called so, where there is one.

    Names that are taken in the file are replaced in it, unless it ``is_final``.
    """

    text: str
    parts: Mapping[str, cst.CSTNode] = field(default_factory=dict)
    is_final: bool = False

    def pieces(self) -> Iterator[str | tuple[cst.CSTNode, bool]]:
        """The text in order; a part of the original comes with whether it stands as a whole argument."""
        position = 0
        for match in _PLACEHOLDER.finditer(self.text):
            if match[1] not in self.parts:
                continue
            yield self.text[position : match.start()]
            before = self.text[: match.start()].rstrip()[-1:]
            after = self.text[match.end() :].lstrip()[:1]
            yield self.parts[match[1]], before in "(,=[{:" and after in "),]}"
            position = match.end()
        yield self.text[position:]


@dataclass(frozen=True)
class Replace:
    """Put ``template`` where ``node`` stands; parentheses around it stay."""

    node: cst.CSTNode
    template: Template

    @property
    def place(self) -> cst.CSTNode:
        """The node at which the edit is made."""
        return self.node


@dataclass(frozen=True)
class Remove:
    """Take a statement away, with its line where nothing else is on it."""

    statement: Statement

    @property
    def place(self) -> cst.CSTNode:
        """The node at which the edit is made."""
        return self.statement


@dataclass(frozen=True)
class Insert:
    """Put lines of code before or after a statement."""

    statement: Statement
    where: Literal["before", "after"]
    template: Template

    @property
    def place(self) -> cst.CSTNode:
        """The node at which the edit is made."""
        return self.statement


@dataclass(frozen=True)
class Unwrap:
    """Take one item out of a ``with`` statement; without a last one the body moves out of it."""

    item: cst.WithItem

    @property
    def place(self) -> cst.CSTNode:
        """The node at which the edit is made."""
        return self.item


@dataclass(frozen=True)
class Drop:
    """Take one item out of the arguments of a call, a signature, the names of a declaration or a list."""

    item: cst.Arg | cst.Param | cst.NameItem | cst.Element

    @property
    def place(self) -> cst.CSTNode:
        """The node at which the edit is made."""
        return self.item


Edit = Replace | Remove | Insert | Unwrap | Drop


@dataclass(frozen=True)
class Import:
    """``import module``, ``import module as alias`` or ``from module import name``, as emitted code prefers it."""

    module: str
    name: str = ""
    alias: str = ""

    @property
    def local(self) -> str:
        """The name that it binds."""
        return self.alias or self.name or self.module.partition(".")[0]

    @property
    def symbol(self) -> str:
        """The dotted name of what it binds."""
        if self.name:
            return f"{self.module}.{self.name}"
        return self.module if self.alias else self.module.partition(".")[0]

    def statement(self, local: str) -> str:
        """The import statement that binds ``local``."""
        if self.name:
            suffix = "" if local == self.name else f" as {local}"
            return f"from {self.module} import {self.name}{suffix}"
        suffix = "" if local == self.module.partition(".")[0] and not self.alias else f" as {local}"
        return f"import {self.module}{suffix}"


class ConflictError(Exception):
    """Two edits claim one place; ``nodes`` are the two."""

    def __init__(self, first: cst.CSTNode, second: cst.CSTNode) -> None:
        super().__init__("two edits claim the same place")
        self.nodes = (first, second)


@dataclass(frozen=True)
class Splice:
    """Characters from ``span`` give way to ``pieces``: new text, or spans of the original."""

    span: Span
    pieces: tuple[str | Span, ...]
    node: cst.CSTNode

    @property
    def is_insertion(self) -> bool:
        """Whether nothing of the original is claimed."""
        return self.span.start == self.span.end

    @property
    def dropped(self) -> Iterator[Span]:
        """The stretches of the original that are lost."""
        position = self.span.start
        parts = (piece for piece in self.pieces if isinstance(piece, Span) and self.span.holds(piece))
        kept = sorted(parts, key=lambda part: part.start) if not self.is_insertion else ()
        for part in kept:
            if part.start > position:
                yield Span(position, part.start)
            position = max(position, part.end)
        if self.span.end > position:
            yield Span(position, self.span.end)


def nodes_of(index: Index, edits: Iterable[Edit]) -> list[cst.CSTNode]:
    """Every node whose place in the text must be known to apply ``edits``."""
    found: list[cst.CSTNode] = []
    for edit in edits:
        found.append(edit.place)
        if isinstance(edit, (Replace, Insert)):
            found += edit.template.parts.values()
        holder = index.parent(edit.place)
        if isinstance(edit, Unwrap) and isinstance(holder, cst.With):
            found += [*holder.items, *holder.body.body]
        if isinstance(edit, Drop):
            found += _listed(edit.item, index)
    return [*found, *around(index, (edit.place for edit in edits))]


def _listed(item: cst.CSTNode, index: Index) -> Sequence[cst.CSTNode]:
    """The items among which ``item`` stands."""
    holder = index.parent(item)
    if isinstance(holder, cst.Call):
        return holder.args
    if isinstance(holder, cst.List):
        return holder.elements
    if isinstance(holder, cst.Parameters):
        return _signature(holder)
    return holder.names if isinstance(holder, (cst.Global, cst.Nonlocal)) else ()


def _signature(holder: cst.Parameters) -> Sequence[cst.CSTNode]:
    """The parameters in the order of the text, with ``/`` and ``*`` between them."""
    slash = [holder.posonly_ind] if isinstance(holder.posonly_ind, cst.ParamSlash) else []
    star = [holder.star_arg] if isinstance(holder.star_arg, (cst.Param, cst.ParamStar)) else []
    last = [holder.star_kwarg] if holder.star_kwarg is not None else []
    return [*holder.posonly_params, *slash, *holder.params, *star, *holder.kwonly_params, *last]


def _needless_marks(holder: cst.CSTNode | None, gone: Collection[int]) -> Iterator[cst.CSTNode]:
    """``/`` and ``*`` of a signature that stand for no parameter any more."""
    if isinstance(holder, cst.Parameters):
        for mark, kind, own in (
            (holder.posonly_ind, cst.ParamSlash, holder.posonly_params),
            (holder.star_arg, cst.ParamStar, holder.kwonly_params),
        ):
            if isinstance(mark, kind) and all(id(parameter) in gone for parameter in own):
                yield mark


def around(index: Index, nodes: Iterable[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """The lines of ``nodes``, the statements on them and in their blocks, and the names of imports."""
    lines = {id(line): line for line in map(index.line, nodes)}
    blocks = {id(block): block for line in lines.values() if (block := index.parent(line)) is not None}
    for block in blocks.values():
        yield from block.body if isinstance(block, cst.IndentedBlock) else ()
        yield from _may_go(index, block)
    for line in lines.values():
        yield line
        yield from _decorators(line)
        for statement in _statements(line):
            yield statement
            yield from _imported(statement)


def _may_go(index: Index, block: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements around ``block`` that may go with it, and those of their blocks."""
    holder = index.parent(block)
    while isinstance(holder, (cst.If, cst.Try)):
        yield holder
        outer = index.parent(holder)
        yield from outer.body if isinstance(outer, cst.IndentedBlock) else ()
        holder = index.parent(outer) if outer is not None else None


def _decorators(node: cst.CSTNode) -> Sequence[cst.Decorator]:
    return node.decorators if isinstance(node, (cst.FunctionDef, cst.ClassDef)) else ()


def _imported(statement: cst.BaseSmallStatement) -> Sequence[cst.ImportAlias]:
    if isinstance(statement, (cst.Import, cst.ImportFrom)) and not isinstance(statement.names, cst.ImportStar):
        return statement.names
    return ()


@dataclass(frozen=True)
class Editor:
    """Turns edits into splices for one module."""

    index: Index
    layout: Layout
    newline: str
    renames: Mapping[str, str] = field(default_factory=dict)

    def splices(self, edits: Collection[Edit]) -> Splices:
        """All splices of ``edits``, those for comments that would be lost included; raises ConflictError."""
        merged = _merge(edits)
        made = [splice for edit in merged for splice in self.splice(edit)]
        made += self.dropping([edit.item for edit in merged if isinstance(edit, Drop)])
        removed = {id(edit.statement) for edit in edits if isinstance(edit, Remove)}
        made += self.passes(removed, made)
        ordered = Splices.of(made)
        ordered.check_nesting()
        return Splices.of([*self.rescues(ordered), *ordered.all])

    def splice(self, edit: Edit) -> Iterator[Splice]:
        if isinstance(edit, Replace):
            yield self.replacement(edit)
        elif isinstance(edit, Remove):
            yield from self.removal(edit.statement)
        elif isinstance(edit, Insert):
            yield self.insertion(edit)
        elif isinstance(edit, Unwrap):
            yield from self.unwrapping(edit)

    def dropping(self, items: Sequence[cst.CSTNode]) -> Iterator[Splice]:
        """Items of lists, with the commas that part them from the next, or else from the ones before."""
        gone = {id(item) for item in items}
        holders = {id(holder): (holder, item) for item in items if (holder := self.index.parent(item)) is not None}
        for holder, item in holders.values():
            siblings = _listed(item, self.index)
            if lines := self.lines_below_comments([o for o in siblings if id(o) in gone], siblings):
                yield from lines
                continue
            here = gone | {id(mark) for mark in _needless_marks(holder, gone)}
            kept = [number for number, other in enumerate(siblings) if id(other) not in here]
            last = kept[-1] if kept else len(siblings) - 1
            yield from (Splice(self.layout.outer_span(o), (), o) for o in siblings[:last] if id(o) in here)
            if not kept:
                yield Splice(self.layout.outer_span(siblings[last]), (), siblings[last])
            else:
                yield from self.trailing(siblings[last], siblings[last + 1 :])

    def lines_below_comments(self, items: Sequence[cst.CSTNode], siblings: Sequence[cst.CSTNode]) -> Sequence[Splice]:
        """The whole lines of ``items``, where a comment stands on a line of its own above one; none otherwise."""
        text, ends = self.layout.text, [0, *(self.layout.span(other).end for other in siblings)]
        found, is_commented = [], False
        for item in items:
            span = self.layout.span(item)
            line = Span(self.layout.line_start(span.start), self.layout.line_end(span.end))
            rest = text[line.start : span.start] + text[span.end : line.end]
            if rest.strip() not in ("", ","):
                return ()
            above = text[max(end for end in ends if end <= span.start) : line.start]
            is_commented |= any(part.lstrip().startswith("#") for part in above.splitlines()[1:])
            found.append(Splice(line, (), item))
        return found if is_commented else ()

    def trailing(self, before: cst.CSTNode, items: Sequence[cst.CSTNode]) -> Iterator[Splice]:
        """The last items of a list, with the comma after the one before; a comma after the last stays."""
        span = self.layout.outer_span(before)
        start = span.start + len(self.layout.text[span.start : span.end].rstrip().removesuffix(",").rstrip())
        for item in items:
            here = self.layout.outer_span(item)
            text = self.layout.text[here.start : here.end].rstrip().removesuffix(",")
            end = here.start + len(text) if item is items[-1] else here.end
            yield Splice(Span(start, end), (), item)
            start = end

    def pieces(self, template: Template, node: cst.CSTNode) -> tuple[str | Span, ...]:
        made: list[str | Span] = []
        quote = self.index.quote(node)
        for piece in template.pieces():
            if isinstance(piece, str):
                text = piece if template.is_final else rename(piece, self.renames)
                made.append(requote(text, quote).replace("\n", self.newline))
                continue
            part, is_argument = piece
            if not isinstance(part, cst.BaseExpression):
                made.append(self.layout.span(part))
                continue
            span = self.layout.outer_span(part)
            made += [span] if is_argument or part.lpar or isinstance(part, _ATOMS) else ["(", span, ")"]
        return tuple(made)

    def replacement(self, edit: Replace) -> Splice:
        pieces = self.pieces(edit.template, edit.node)
        if isinstance(edit.node, cst.BaseExpression) and not edit.node.lpar and self.needs_parentheses(edit):
            pieces = ("(", *pieces, ")")
        return Splice(self.layout.span(edit.node), pieces, edit.node)

    def needs_parentheses(self, edit: Replace) -> bool:
        holder = self.index.parent(edit.node)
        if isinstance(holder, (cst.Arg, cst.BaseSmallStatement, cst.AssignTarget, cst.Element, cst.Param)):
            return False
        if isinstance(holder, (cst.If, cst.While)) and holder.test is edit.node:
            return False
        source = _PLACEHOLDER.sub("part", edit.template.text)
        new = ast.parse(source, mode="eval").body
        if isinstance(holder, (cst.BooleanOperation, cst.IfExp)) and isinstance(new, (ast.Compare, ast.UnaryOp)):
            return False
        return not isinstance(new, (ast.Call, ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Dict, ast.List))

    def removal(self, statement: Statement) -> Iterator[Splice]:
        span = self.layout.span(statement)
        line = self.index.line(statement)
        siblings: Sequence[cst.CSTNode] = () if isinstance(line, cst.BaseCompoundStatement) else _statements(line)
        if len(siblings) > 1:
            yield Splice(self.among(siblings, statement), (), statement)
        elif isinstance(line, cst.SimpleStatementSuite):
            yield Splice(span, ("pass",), statement)
        else:
            start = self.layout.line_start(self.start(statement))
            end = self.block_end(line) if line is statement else self.layout.line_end(span.end)
            yield Splice(Span(start, end), (), statement)
            yield from self.blank_line_after(start, end, statement)

    def start(self, statement: cst.CSTNode) -> int:
        """Where a statement begins: at its first decorator, if it has one."""
        return self.layout.span(next(iter(_decorators(statement)), statement)).start

    def among(self, siblings: Sequence[cst.CSTNode], statement: cst.CSTNode) -> Span:
        """A statement on a line with others, with the semicolon that parts it from them."""
        span = self.layout.span(statement)
        place = siblings.index(statement)
        if place + 1 < len(siblings):
            return Span(span.start, self.layout.span(siblings[place + 1]).start)
        return Span(self.layout.span(siblings[place - 1]).end, span.end)

    def blank_line_after(self, start: int, end: int, node: cst.CSTNode) -> Iterator[Splice]:
        """The blank line below what goes, where there is one above it too, or the block begins."""
        above = self.layout.text[self.layout.line_start(start - 1) : start] if start else ""
        below = _BLANK_LINE.match(self.layout.text, end)
        block = self.index.parent(self.index.line(node))
        lines = block.body if isinstance(block, cst.IndentedBlock) else ()
        is_first = len(lines) > 1 and lines[0] is self.index.line(node)
        if below and (is_first or not above.strip()):
            yield Splice(Span(end, below.end()), (), node)

    def block_end(self, compound: cst.CSTNode) -> int:
        return self.layout.line_end(self.layout.span(compound).end - 1)

    def insertion(self, edit: Insert) -> Splice:
        line = self.index.line(edit.statement)
        span = self.layout.span(edit.statement)
        pieces = self.pieces(edit.template, edit.statement)
        if self.shares_line(edit, line):
            if edit.where == "before":
                return Splice(Span(span.start, span.start), (*pieces, "; "), edit.statement)
            return Splice(Span(span.end, span.end), ("; ", *pieces), edit.statement)
        indent = self.layout.indentation(span.start)
        if edit.where == "before":
            start = self.layout.line_start(self.start(edit.statement))
            return Splice(Span(start, start), (*self.indented(pieces, indent), self.newline), edit.statement)
        end = self.block_end(line) if isinstance(line, cst.BaseCompoundStatement) else self.layout.line_end(span.end)
        lead = "" if self.layout.text[end - 1 : end] in ("\n", "\r") else self.newline
        tail = self.newline if not lead else ""
        return Splice(Span(end, end), (lead, *self.indented(pieces, indent), tail), edit.statement)

    def shares_line(self, edit: Insert, line: cst.CSTNode) -> bool:
        """Whether what is inserted must stand on the line of its statement, among others."""
        siblings = _statements(line)
        edge = siblings[0 if edit.where == "before" else -1] if siblings else edit.statement
        return isinstance(line, cst.SimpleStatementSuite) or edge is not edit.statement

    def indented(self, pieces: tuple[str | Span, ...], indent: str) -> Iterator[str | Span]:
        yield indent
        unit = self.index.tree.default_indent
        for place, piece in enumerate(pieces):
            if isinstance(piece, str):
                yield reindent(piece, indent, unit, self.newline, continues=place + 1 < len(pieces))
            else:
                yield piece

    def unwrapping(self, edit: Unwrap) -> Iterator[Splice]:
        holder = self.index.parent(edit.item)
        assert isinstance(holder, cst.With)
        if len(holder.items) > 1:
            place = holder.items.index(edit.item)
            here = self.layout.span(edit.item)
            if place:
                yield Splice(Span(self.layout.span(holder.items[place - 1]).end, here.end), (), edit.item)
            else:
                yield Splice(Span(here.start, self.layout.span(holder.items[1]).start), (), edit.item)
            return
        yield from self.moved_out(holder, edit.item)

    def moved_out(self, holder: cst.With, item: cst.WithItem) -> Iterator[Splice]:
        start = self.layout.span(holder).start
        if isinstance(holder.body, cst.SimpleStatementSuite):
            first = self.layout.span(holder.body.body[0]).start
            yield Splice(Span(start, first), (), item)
            return
        header = Span(self.layout.line_start(start), self.layout.line_end(self.layout.span(item).end))
        yield Splice(header, (), item)
        depth = sum(isinstance(a, cst.IndentedBlock) for a in self.index.ancestors(holder))
        for pieces in self.layout.levels(Span(header.end, self.block_end(holder))):
            if len(pieces) > depth:
                yield Splice(pieces[depth], (), item)

    def passes(self, removed: set[int], made: Sequence[Splice]) -> list[Splice]:
        """What becomes of blocks all of whose statements go: a ``pass``, or nothing where the whole statement goes."""
        more: list[Splice] = []
        waiting = [splice.node for splice in made if id(splice.node) in removed]
        done: set[int] = set()
        while waiting:
            block = self.index.parent(self.index.line(waiting.pop()))
            if (
                not isinstance(block, cst.IndentedBlock)
                or id(block) in done
                or not self.is_emptied(block, removed, made)
            ):
                continue
            done.add(id(block))
            holder = self.index.parent(block)
            if holder is not None and self.is_needless(holder, block, removed):
                removed.add(id(holder))
                more += self.removal(holder)
                waiting.append(holder)
            else:
                more.append(self.pass_in(block))
        return more

    def is_needless(self, holder: cst.CSTNode, block: cst.CSTNode, removed: Collection[int]) -> TypeGuard[Statement]:
        """Whether ``holder`` does nothing any more once its body is empty."""
        if holder is not self.index.line(holder):
            return False
        if isinstance(holder, cst.If):
            return holder.body is block and holder.orelse is None and _is_pure(holder.test)
        if isinstance(holder, cst.Try) and holder.body is block and holder.orelse is None and holder.finalbody is None:
            parts = [
                part
                for handler in holder.handlers
                for line in handler.body.body
                for part in _statements(line) or (line,)
            ]
            return all(id(part) in removed or _only_complains(part) for part in parts)
        return False

    def is_emptied(self, block: cst.IndentedBlock, removed: Collection[int], made: Sequence[Splice]) -> bool:
        for line in block.body:
            if not all(id(part) in removed for part in _statements(line) or (line,)):
                return False
        own = {id(part) for line in block.body for part in (line, *_statements(line))}
        return not any(s.span.start == s.span.end and s.pieces and id(s.node) in own for s in made)

    def pass_in(self, block: cst.IndentedBlock) -> Splice:
        first = self.start(block.body[0])
        start = self.layout.line_start(first)
        indent = self.layout.indentation(first)
        return Splice(Span(start, start), (indent + "pass" + self.newline,), block)

    def rescues(self, ordered: Splices) -> Iterator[Splice]:
        """Comments that the splices drop, each on a line of its own above the statement that held it."""
        comments = comment_spans(self.layout.text)
        starts = [comment.start for comment in comments]
        for splice in ordered.outermost(Span(0, len(self.layout.text))):
            near = comments[bisect_left(starts, splice.span.start) : bisect_left(starts, splice.span.end)]
            if near:
                lost = list(ordered.lost_in(splice))
                yield from (self.moved_up(c, splice.node) for c in near if any(s.holds(c) for s in lost))

    def moved_up(self, comment: Span, node: cst.CSTNode) -> Splice:
        line = self.start(self.index.line(node))
        start = self.layout.line_start(line)
        text = self.layout.text[comment.start : comment.end]
        return Splice(Span(start, start), (self.layout.indentation(line) + text + self.newline,), node)


@dataclass(frozen=True)
class Splices:
    """Splices in the order of the text; what is inserted at a place comes before what is replaced there."""

    all: tuple[Splice, ...]
    starts: tuple[int, ...]

    @classmethod
    def of(cls, splices: Iterable[Splice]) -> Splices:
        """Put ``splices`` in order."""
        ordered = sorted(splices, key=lambda s: (s.span.start, not s.is_insertion, -s.span.end))
        return cls(tuple(ordered), tuple(s.span.start for s in ordered))

    def check_nesting(self) -> None:
        """Raise ConflictError where two splices cross, or claim the same characters."""
        around: list[Splice] = []
        for splice in self.all:
            while around and around[-1].span.end <= splice.span.start:
                around.pop()
            if splice.is_insertion:
                continue
            if around and _clash(around[-1], splice):
                raise ConflictError(around[-1].node, splice.node)
            around.append(splice)

    def outermost(self, span: Span, without: Splice | None = None) -> Iterator[Splice]:
        """The splices within ``span`` that lie in no other; at the edges of a part, insertions belong outside it."""
        end = -1
        for place in range(bisect_left(self.starts, span.start), bisect_right(self.starts, span.end)):
            splice = self.all[place]
            at_edge = splice.is_insertion and splice.span.start in (span.start, span.end)
            if splice is without or splice.span.start < end or not span.holds(splice.span):
                continue
            if without is None or not at_edge:
                yield splice
                end = splice.span.end

    def lost_in(self, splice: Splice) -> Iterator[Span]:
        """The stretches of the original that ``splice``, and splices in the parts it keeps, drop."""
        yield from splice.dropped
        for part in splice.pieces:
            if isinstance(part, Span):
                for inner in self.outermost(part, splice):
                    yield from self.lost_in(inner)

    def lost(self) -> Iterator[Span]:
        """Every stretch of the original that would be lost."""
        for splice in self.outermost(self.whole):
            yield from self.lost_in(splice)

    @property
    def whole(self) -> Span:
        """From the beginning of the text to the last character that a splice claims."""
        return Span(0, max((splice.span.end for splice in self.all), default=0))

    def carried_out(self, span: Span | None = None, holder: Splice | None = None) -> Iterator[Splice]:
        """The splices that show in the result: not those inside what another one drops."""
        for splice in self.outermost(span or self.whole, holder):
            yield splice
            for piece in splice.pieces:
                if isinstance(piece, Span):
                    yield from self.carried_out(piece, splice)

    def apply(self, text: str, span: Span | None = None, holder: Splice | None = None) -> str:
        """The text, or what becomes of ``span``, a part that ``holder`` keeps."""
        whole = span or Span(0, len(text))
        made: list[str] = []
        position = whole.start
        for splice in self.outermost(whole, holder):
            made.append(text[position : splice.span.start])
            made += [p if isinstance(p, str) else self.apply(text, p, splice) for p in splice.pieces]
            position = splice.span.end
        return "".join([*made, text[position : whole.end]])


def _clash(holder: Splice, splice: Splice) -> bool:
    if splice.span.end > holder.span.end:
        return True
    kept = any(isinstance(piece, Span) and piece.holds(splice.span) for piece in holder.pieces)
    return holder.span == splice.span and not kept


def _statements(line: cst.CSTNode) -> Sequence[cst.BaseSmallStatement]:
    return line.body if isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else ()


def _is_pure(test: cst.CSTNode) -> bool:
    """Whether nothing happens when ``test`` is evaluated."""
    kinds = (cst.Name, cst.Attribute, cst.Comparison, cst.UnaryOperation, cst.BooleanOperation, cst.SimpleString)
    nested = (cst.ComparisonTarget, cst.BaseNumber, cst.BaseCompOp, cst.BaseUnaryOp, cst.BaseBooleanOp)
    return isinstance(test, (*kinds, *nested)) and all(map(_is_pure, children_of(test)))


_COMPLAINTS = ("print", "warn", "warning", "error", "info", "debug", "exception", "exit")


def _only_complains(statement: cst.CSTNode) -> bool:
    """Whether ``statement`` only passes, raises, prints, logs or exits."""
    if isinstance(statement, cst.Expr):
        call = statement.value
        return isinstance(call, cst.Call) and dotted_name(call.func).rpartition(".")[2] in _COMPLAINTS
    return isinstance(statement, (cst.Pass, cst.Raise))


def _merge(edits: Collection[Edit]) -> list[Edit]:
    """The edits without repetitions: one thing removed, or replaced by the same, twice is no contradiction."""
    seen: dict[object, Edit] = {}
    for position, edit in enumerate(edits):
        key: object = -position if isinstance(edit, Insert) else id(edit.place)
        if isinstance(edit, Replace):
            parts = edit.template.parts.items()
            key = id(edit.node), edit.template.text, tuple((name, id(part)) for name, part in parts)
        seen.setdefault(key, edit)
    return list(seen.values())


def rename(text: str, renames: Mapping[str, str]) -> str:
    """``text`` with names replaced where they stand alone, not as attributes."""
    if not renames:
        return text
    names = "|".join(re.escape(name) for name in renames)
    return re.sub(rf"(?<![\w.])({names})\b", lambda match: renames[match[1]], text)


def requote(text: str, quote: str) -> str:
    """``text`` with string quotes that do not end the f-string around it, whose quotes are ``quote``."""
    return text.replace('"', "'") if quote == '"' else text


def reindent(text: str, indent: str, unit: str, newline: str, *, continues: bool = False) -> str:
    """Lines after the first, moved in by ``indent``; their own steps of four blanks become ``unit``.

    Blank lines stay blank, but for the last one of a text that ``continues`` with a part of the original.
    """

    def move(line: str, is_last: bool) -> str:
        body = line.lstrip(" ")
        steps = (len(line) - len(body)) // 4
        return indent + unit * steps + body if body or (is_last and continues) else line

    first, *rest = text.split(newline)
    return newline.join([first, *(move(line, place == len(rest)) for place, line in enumerate(rest, 1))])
