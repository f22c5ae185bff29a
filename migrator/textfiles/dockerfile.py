"""Read a Dockerfile: what it runs, in both forms, and the variables that it sets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import tree_sitter

from migrator.layout import Span
from migrator.textfiles.document import Command, Form, Parts, Variable, Word
from migrator.textfiles.rows import Row
from migrator.textfiles.shell import commands, expansions, shell_in_words, variables
from migrator.textfiles.syntax import Tree, parse

_HEREDOC = re.compile(r"(?<!<)<<-?[\"']?([A-Za-z_]\w*)")
EXECUTED = Form(", ", lambda word: json.dumps(word, ensure_ascii=False))


def read_dockerfile(text: str) -> Parts:
    """The parts of a Dockerfile; each instruction is read by itself, so that one cannot hide others."""
    masked = _masked(text)
    trees = [(replace(parse("dockerfile", masked, span), text=text), span) for span in _instructions(masked)]
    shells = [shell for tree, span in trees for shell in _shells(tree, span)]
    arrays = [(tree, node) for tree, _ in trees for node in tree.walk() if node.type == "json_string_array"]
    listed = [each for tree, node in arrays for each in _executed(tree, node)]
    found = [command for shell in shells for command in commands(shell)]
    set_there = [variable for shell in shells for variable in variables(shell)]
    set_there += [variable for tree, _ in trees for variable in _variables(tree)]
    used = [expansion for shell in shells for expansion in expansions(shell)]
    return Parts((*found, *listed), tuple(set_there), tuple(used))


def _masked(text: str) -> str:
    """The text with comments between the lines of an instruction, which is no RUN, made into continued lines."""
    lines, instruction, goes_on = text.split("\n"), "", False
    for index, line in enumerate(lines):
        content = line.strip()
        is_comment = content.startswith("#")
        if goes_on and is_comment and instruction != "RUN":
            end = len(line.rstrip()) - 1
            lines[index] = " " * end + "\\" + line[end + 1 :]
        elif not goes_on and content and not is_comment:
            instruction = content.partition(" ")[0].upper()
        goes_on = _goes_on(content, goes_on)
    return "\n".join(lines)


def _goes_on(content: str, before: bool) -> bool:
    """Whether an instruction goes on after a line; comments and empty lines do not end one."""
    is_comment = content.startswith("#")
    return (content.endswith("\\") and not is_comment) or (before and (is_comment or not content))


def _instructions(text: str) -> Iterator[Span]:
    """Where each instruction stands, with its here-documents."""
    start, position, goes_on, waiting = -1, 0, False, list[str]()
    for line in text.splitlines(keepends=True):
        content = line.strip()
        position += len(line)
        if waiting:
            waiting = waiting[1:] if content == waiting[0] else waiting
        elif start >= 0 or (content and not content.startswith("#")):
            start = position - len(line) if start < 0 else start
            waiting += _HEREDOC.findall(line) if not content.startswith("#") else ()
            goes_on = _goes_on(content, goes_on)
        if start >= 0 and not goes_on and not waiting:
            yield Span(start, position)
            start = -1
    if start >= 0:
        yield Span(start, position)


def _shells(tree: Tree, span: Span) -> Iterator[Tree]:
    """What an instruction runs; where it cannot be read as one, all behind ``RUN`` and its options."""
    nodes = [node for node in tree.walk() if node.type in ("shell_command", "heredoc_block")]
    source = tree.text[span.start : span.end]
    if not tree.root.has_error or source.split(maxsplit=1)[0].upper() != "RUN":
        yield from (_shell(tree, node) for node in nodes)
        return
    position = 3
    while source[position:].lstrip().startswith("--"):
        position = len(source) - len(source[position:].lstrip())
        position += len(source[position:].split(maxsplit=1)[0])
    yield _without_comments(tree.text, Span(span.start + position, span.start + len(source.rstrip())), span)


def _without_comments(text: str, body: Span, holder: Span) -> Tree:
    lines = text[body.start : body.end].splitlines(keepends=True)
    seen = "".join(" " * len(line) if line.lstrip().startswith("#") else line for line in lines)
    shell = parse("bash", text[: body.start] + seen + text[body.end :], body)
    return replace(shell, text=text, holder=Span(holder.start, body.end))


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
    holder = node.parent
    alone = holder is not None and holder.type == "run_instruction"
    return replace(shell, text=tree.text, holder=tree.span(holder) if holder is not None and alone else None)


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
        if node.type == "env_instruction":
            pairs = [child for child in node.children if child.type == "env_pair"]
            row = Row(tuple(map(tree.span, pairs)), "")
            for index, pair in enumerate(pairs):
                yield _variable(tree, pair, node, pair.children, (row, index))
        elif node.type == "arg_instruction":
            yield _variable(tree, node, node, node.children[1:])


def _variable(
    tree: Tree,
    node: tree_sitter.Node,
    instruction: tree_sitter.Node,
    parts: list[tree_sitter.Node],
    row: tuple[Row, int] | None = None,
) -> Variable:
    named = [tree.source(part) for part in parts if part.is_named]
    value = named[1].strip("\"'") if len(named) > 1 else ""
    holder = Row((tree.span(instruction),), ""), 0
    return Variable(named[0], value, tree.span(node), tree.span(node), row or holder, (holder,))
