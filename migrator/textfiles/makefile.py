"""Read a Makefile: the commands of its recipes, and those that its variables begin."""

from __future__ import annotations

import tree_sitter

from migrator.layout import Span
from migrator.textfiles.document import Parts
from migrator.textfiles.shell import commands, variables
from migrator.textfiles.syntax import parse

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
            shells.append(parse("bash", text, Span(start, span.end)))
    found = [command for shell in shells for command in commands(shell)]
    exported = [variable for shell in shells for variable in variables(shell)]
    return Parts(tuple(found), tuple(exported))
