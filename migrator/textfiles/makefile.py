"""Read a Makefile: the commands of its recipes, and those that its variables begin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import tree_sitter

from migrator.layout import Span
from migrator.textfiles.document import Parts, Variable
from migrator.textfiles.rows import Row
from migrator.textfiles.shell import commands, expansions, variables
from migrator.textfiles.syntax import Tree, parse

_PREFIXES = "@-+ \t"


def _is_value(node: tree_sitter.Node) -> bool:
    return node.parent is not None and node.parent.type == "variable_assignment"


def read_makefile(text: str) -> Parts:
    """The parts of a Makefile."""
    tree = parse("make", text)
    shells = []
    for node in tree.walk():
        if node.type == "recipe_line" or (node.type == "text" and _is_value(node)):
            span = tree.span(node)
            start = span.end - len(text[span.start : span.end].lstrip(_PREFIXES))
            shell = parse("bash", text, Span(start, span.end))
            shells.append(replace(shell, holder=span) if node.type == "recipe_line" else shell)
    found = [command for shell in shells for command in commands(shell)]
    exported = [variable for shell in shells for variable in variables(shell)]
    used = [expansion for shell in shells for expansion in expansions(shell)]
    return Parts(tuple(found), (*_variables(tree), *exported), tuple(used))


def _variables(tree: Tree) -> Iterator[Variable]:
    """The variables of make itself."""
    for node in tree.walk():
        name = node.child_by_field_name("name") if node.type == "variable_assignment" else None
        if name is not None and node.parent is not None:
            holder = node.parent if node.parent.type == "export_directive" else node
            value = node.child_by_field_name("value")
            known = tree.source(value) if value is not None else ""
            span = tree.span(holder)
            span = Span(span.start, span.start + len(tree.text[span.start : span.end].rstrip()))
            yield Variable(tree.source(name), known, span, span, (Row((span,), ""), 0))
