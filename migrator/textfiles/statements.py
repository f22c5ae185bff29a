"""Statements taken out of shell: what is left is shell too, and does what it did without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import tree_sitter

from migrator.layout import Span
from migrator.textfiles.document import Command, TextEdit
from migrator.textfiles.rows import Row, whole_lines
from migrator.textfiles.syntax import Place, Tree

_NOTHING = ":"
_NEED_A_STATEMENT = (
    *("if_statement", "elif_clause", "else_clause", "do_group", "compound_statement", "subshell", "case_item"),
    *("while_statement", "for_statement", "command_substitution", "process_substitution"),
)
_STATEMENTS = (
    *("command", "list", "pipeline", "redirected_statement", "declaration_command", "variable_assignment"),
    *("variable_assignments", "if_statement", "for_statement", "while_statement", "case_statement", "subshell"),
    *("compound_statement", "function_definition", "negated_command", "test_command", "unset_command"),
    "c_style_for_statement",
)


@dataclass(frozen=True, eq=False)
class _Removal:
    """What goes from one tree."""

    tree: Tree
    gone: frozenset[int]

    def goes(self, node: tree_sitter.Node) -> bool:
        """Whether nothing of a statement is left."""
        if node.id in self.gone:
            return True
        inner = [child for child in node.children if child.type in _STATEMENTS]
        if node.type == "list" and len(inner) == 2:
            return self.goes(inner[0]) and (self.goes(inner[1]) or _operator(node) == "||")
        if node.type in ("redirected_statement", "pipeline", "negated_command") and inner:
            return self.goes(inner[0])
        return False

    def edits(self, node: tree_sitter.Node) -> Iterator[TextEdit]:
        """The edits within a node of which something is left."""
        inner = [child for child in node.children if child.type in _STATEMENTS]
        if node.type == "list" and len(inner) == 2 and any(map(self.goes, inner)):
            yield from self._of_list(node, *inner)
            return
        going = {index: "" for index, child in enumerate(inner) if self.goes(child)}
        if going and node.type in _NEED_A_STATEMENT:
            going = self._of_body(node, inner, going)
        if going:
            yield from Row(tuple(map(self.tree.span, inner)), ";").without(self.tree.text, going)
        for child in node.children:
            if child not in inner or not self.goes(child):
                yield from self.edits(child)

    def _of_list(self, node: tree_sitter.Node, left: tree_sitter.Node, right: tree_sitter.Node) -> Iterator[TextEdit]:
        one, other = self.tree.span(left), self.tree.span(right)
        if self.goes(left):
            yield TextEdit(Span(one.start, other.start), "")
            yield from self.edits(right)
            return
        cut = TextEdit(Span(one.end, other.end), "") if _operator(node) == "&&" else TextEdit(other, _NOTHING)
        yield cut
        yield from self.edits(left)

    def _of_body(self, node: tree_sitter.Node, inner: list[tree_sitter.Node], going: dict[int, str]) -> dict[int, str]:
        """With a statement that does nothing where a body, or a part of it between two words, would be without one."""
        words = [child.start_byte for child in node.children if child.type in ("then", "else", "elif", ")")]
        parts = [sum(child.start_byte > word for word in words) for child in inner]
        for part in set(parts):
            members = [index for index, where in enumerate(parts) if where == part]
            if all(index in going for index in members):
                going = {**going, members[0]: _NOTHING}
        return going


def without(places: Iterable[tuple[Place, Command | None]]) -> Iterator[tuple[TextEdit, frozenset[int]]]:
    """The edits that take statements out, each with the identities of the nodes for which it is.

    Each statement comes with the command in whose words it stands: ``bash -c "..."`` goes with all that it runs.
    """
    by_tree: dict[int, tuple[Tree, set[int], Command | None]] = {}
    waiting = list(places)
    for place, within in waiting:
        by_tree.setdefault(id(place.tree), (place.tree, set(), within))[1].add(place.node.id)
    for tree, gone, within in list(by_tree.values()):
        if within is not None and within.place is not None and _all_goes(_Removal(tree, frozenset(gone))):
            outer = within.place
            by_tree.setdefault(id(outer.tree), (outer.tree, set(), within.within))[1].add(outer.node.id)
            del by_tree[id(tree)]
    for tree, gone, _ in by_tree.values():
        removal = _Removal(tree, frozenset(gone))
        yield from ((edit, frozenset(gone)) for edit in _of_tree(removal))


def _all_goes(removal: _Removal) -> bool:
    statements = [child for child in removal.tree.root.children if child.type in _STATEMENTS]
    return bool(statements) and all(map(removal.goes, statements))


def _of_tree(removal: _Removal) -> Iterable[TextEdit]:
    tree = removal.tree
    if not _all_goes(removal):
        return removal.edits(tree.root)
    if tree.holder is not None:
        return (TextEdit(whole_lines(tree.text, tree.holder, ";") or tree.holder, ""),)
    if tree.start == 0 and len(tree.masked) == len(tree.text):
        return removal.edits(tree.root)
    statements = [tree.span(child) for child in tree.root.children if child.type in _STATEMENTS]
    return (TextEdit(Span(statements[0].start, statements[-1].end), tree.nothing),)


def _operator(node: tree_sitter.Node) -> str:
    return next((child.type for child in node.children if child.type in ("&&", "||")), "")
