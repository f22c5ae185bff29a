"""Read shell: commands and the variables of their environment, also in the strings that hold more shell."""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter

from migrator.layout import Span
from migrator.textfiles.document import Command, Expansion, Form, Parts, Variable, Word
from migrator.textfiles.rows import Row
from migrator.textfiles.syntax import Place, Tree, parse

_PLAIN = ("word", "number", "string_content", "command_name", "variable_name")
_ESCAPE = {"word": re.compile(r"\\(.)", re.DOTALL), "string_content": re.compile(r'\\([\\"$`])')}


def read_shell(text: str) -> Parts:
    """The parts of a shell script."""
    tree = parse("bash", text)
    return Parts(tuple(commands(tree)), tuple(variables(tree)), tuple(expansions(tree)))


def shell_in(text: str, span: Span, *, outer: str = "", within: Command | None = None) -> tuple[Command, ...]:
    """The commands of a part of a text that is shell; ``outer`` is the quote around it."""
    return tuple(commands(parse("bash", text, span), outer, within))


def shell_in_words(text: str, command: Command) -> Iterator[Command]:
    """The commands of those words, in quotes, that hold shell, as in ``["bash", "-c", "..."]``."""
    for each in command.words:
        source = text[each.span.start : each.span.end]
        if source[:1] in ("'", '"') and source[1:-1] == each.value and " " in each.value.strip():
            inner = Span(each.span.start + 1, each.span.end - 1)
            yield from shell_in(text, inner, outer=source[0], within=command)


def commands(tree: Tree, outer: str = "", within: Command | None = None) -> Iterator[Command]:
    """The commands of a tree, in order, and those in its strings and here-documents."""
    form = Form(" ", is_shell=True, outer=outer)
    for node in tree.walk():
        command = _command(tree, node, form, within) if node.type == "command" else None
        if command is not None:
            yield command
            for argument in node.children_by_field_name("argument"):
                yield from _inside(tree, argument, command)
        elif node.type == "variable_assignment" and (value := node.child_by_field_name("value")) is not None:
            yield from _inside(tree, value, within)
        elif node.type == "heredoc_body" and not outer:
            yield from shell_in(tree.text, tree.span(node), within=within)


def _command(tree: Tree, node: tree_sitter.Node, form: Form, within: Command | None) -> Command | None:
    name = node.child_by_field_name("name")
    if name is None:
        return None
    words = tuple(word(tree, each) for each in (name, *node.children_by_field_name("argument")))
    set_here = tuple(word(tree, each) for each in node.children if each.type == "variable_assignment")
    return Command(words, form, set_here, within, not node.has_error, Place(tree, node))


def _inside(tree: Tree, node: tree_sitter.Node, within: Command | None) -> Iterator[Command]:
    """The commands of a string that holds shell: one with a blank, and no escapes, which would shift its places."""
    for each in (node, *node.children):
        span, source = tree.span(each), tree.source(each)
        inner = Span(span.start + 1, span.end - 1)
        content = source[1:-1]
        is_plain = "\\" not in content.replace("\\\n", "") and all(
            c.type != "command_substitution" for c in each.children
        )
        if each.type in ("string", "raw_string") and " " in content.strip() and is_plain:
            yield from shell_in(tree.text, inner, outer=source[0], within=within)


def word(tree: Tree, node: tree_sitter.Node) -> Word:
    """``node`` as a word."""
    pieces, is_literal = [], not tree.is_templated(node)
    for text, known in _pieces(tree, node):
        pieces.append(text)
        is_literal &= known
    return Word(tree.source(node), "".join(pieces), tree.span(node), is_literal)


def _pieces(tree: Tree, node: tree_sitter.Node) -> Iterator[tuple[str, bool]]:
    """What the shell makes of a word, in pieces, and whether each is known."""
    source = tree.source(node)
    if node.type == "raw_string":
        yield source[1:-1], True
    elif node.type in ("string", "concatenation", "command_name", "variable_assignment"):
        position = tree.span(node).start + (node.type == "string")
        for child in node.children:
            span = tree.span(child)
            if child.type != '"':
                yield tree.text[position : span.start], True
                yield from _pieces(tree, child)
                position = span.end
    elif node.type in _PLAIN or not node.is_named:
        escape = _ESCAPE.get(node.type)
        yield (escape.sub(r"\1", source) if escape else source), True
    else:
        yield source, False


def variables(tree: Tree) -> Iterator[Variable]:
    """The variables that a script sets, for itself or for one command."""
    for node in tree.walk():
        if node.type == "heredoc_body":
            yield from variables(parse("bash", tree.text, tree.span(node)))
        if node.type != "variable_assignment":
            continue
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None:
            known = "".join(text for text, _ in _pieces(tree, value)) if value is not None else ""
            yield _variable(tree, node, tree.source(name), known)


def _variable(tree: Tree, node: tree_sitter.Node, name: str, value: str) -> Variable:
    """A variable with what goes when it goes: an ``export`` with nothing else to say goes too."""
    holder = node.parent
    span = tree.span(node)
    if holder is not None and holder.type == "command" and node.next_sibling is not None:
        statement = Span(span.start, tree.span(node.next_sibling).start)
        return Variable(name, value, span, statement, is_prefix=True)
    if holder is None or holder.type not in ("declaration_command", "variable_assignments"):
        return Variable(name, value, span, span, place=Place(tree, node))
    siblings = [
        child for child in holder.named_children if child.type in ("variable_assignment", "variable_name", "word")
    ]
    row = Row(tuple(map(tree.span, siblings)), "")
    statement = tree.span(holder) if len(siblings) == 1 else span
    return Variable(name, value, span, statement, (row, siblings.index(node)), (), Place(tree, holder))


def expansions(tree: Tree) -> Iterator[Expansion]:
    """Where the values of variables are put in."""
    for node in tree.walk():
        if node.type == "variable_name" and node.parent is not None and node.parent.type.endswith("expansion"):
            yield Expansion(tree.source(node), tree.span(node))
