"""Read a Dockerfile: what it runs, in both forms, and the variables that it sets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import tree_sitter

from migrator.layout import Span
from migrator.textfiles.document import Command, Form, Parts, Variable, Word
from migrator.textfiles.shell import commands, shell_in_words, variables
from migrator.textfiles.syntax import Tree, parse

EXECUTED = Form(", ", lambda word: json.dumps(word, ensure_ascii=False))


def read_dockerfile(text: str) -> Parts:
    """The parts of a Dockerfile."""
    tree = parse("dockerfile", text)
    shells = [_shell(tree, node) for node in tree.walk() if node.type in ("shell_command", "heredoc_block")]
    listed = [each for node in tree.walk() if node.type == "json_string_array" for each in _executed(tree, node)]
    found = [command for shell in shells for command in commands(shell)]
    set_there = [variable for shell in shells for variable in variables(shell)]
    return Parts((*found, *listed), (*_variables(tree), *set_there))


def _shell(tree: Tree, node: tree_sitter.Node) -> Tree:
    """A command as the shell sees it: comments between its lines are not part of it."""
    span = tree.span(node)
    seen = tree.text
    for child in node.children:
        if child.type == "comment":
            place = tree.span(child)
            end = place.end + seen[place.end : place.end + 1].count("\n")
            seen = seen[: place.start] + " " * (end - place.start) + seen[end:]
    shell = parse("bash", seen, span)
    return Tree(tree.text, shell.start, shell.masked, shell.root, shell.starts)


def _executed(tree: Tree, node: tree_sitter.Node) -> Iterator[Command]:
    if words := tuple(_word(tree, child) for child in node.children if child.type == "json_string"):
        command = Command(words, EXECUTED)
        yield command
        yield from shell_in_words(tree.text, command)


def _word(tree: Tree, node: tree_sitter.Node) -> Word:
    source = tree.source(node)
    try:
        value, is_known = str(json.loads(source)), not tree.is_templated(node)
    except ValueError:
        value, is_known = source[1:-1], False
    return Word(value, value, tree.span(node), is_known)


def _variables(tree: Tree) -> Iterator[Variable]:
    for node in tree.walk():
        if node.type == "env_pair" and node.parent is not None:
            alone = len([child for child in node.parent.children if child.type == "env_pair"]) == 1
            yield _variable(tree, node.children, tree.span(node), tree.span(node.parent if alone else node))
        elif node.type == "arg_instruction":
            yield _variable(tree, node.children[1:], tree.span(node), tree.span(node))


def _variable(tree: Tree, parts: list[tree_sitter.Node], span: Span, statement: Span) -> Variable:
    named = [tree.source(part) for part in parts if part.is_named]
    return Variable(named[0], named[1].strip("\"'") if len(named) > 1 else "", span, statement)
