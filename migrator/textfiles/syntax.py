"""Parse with tree-sitter: trees whose places are those of the text, whatever its characters."""

from __future__ import annotations

import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import tree_sitter
import tree_sitter_bash
import tree_sitter_dockerfile
import tree_sitter_make

from migrator.layout import Span

# What GitHub, GitLab, Helm and cookiecutter put in before a shell sees the text.
TEMPLATE = re.compile(r"\$?\{\{.*?\}\}|\$\[\[.*?\]\]", re.DOTALL)
_GRAMMARS: dict[str, Callable[[], object]] = {
    "bash": tree_sitter_bash.language,
    "dockerfile": tree_sitter_dockerfile.language,
    "make": tree_sitter_make.language,
}


@dataclass(frozen=True, eq=False)
class Tree:
    """A part of a text, parsed; ``text`` is the whole, ``masked`` the part with its templates made into words.

    ``holder`` is what goes with all of it, where that can go: the instruction of a Dockerfile, a line of a recipe;
    ``nothing`` is written for all of it otherwise.
    """

    text: str
    start: int
    masked: str
    root: tree_sitter.Node
    starts: tuple[int, ...] = ()
    holder: Span | None = None
    nothing: str = ":"

    def span(self, node: tree_sitter.Node) -> Span:
        """Where ``node`` stands in the whole text."""
        return Span(self.start + self._offset(node.start_byte), self.start + self._offset(node.end_byte))

    def source(self, node: tree_sitter.Node) -> str:
        """How ``node`` is written."""
        span = self.span(node)
        return self.text[span.start : span.end]

    def is_templated(self, node: tree_sitter.Node) -> bool:
        """Whether part of ``node`` is put in before the text is run."""
        span = self.span(node)
        return self.source(node) != self.masked[span.start - self.start : span.end - self.start]

    def walk(self) -> Iterator[tree_sitter.Node]:
        """Every node, holders before what they hold."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)

    def _offset(self, byte: int) -> int:
        return bisect_right(self.starts, byte) - 1 if self.starts else byte


@dataclass(frozen=True, eq=False)
class Place:
    """A node of a tree."""

    tree: Tree
    node: tree_sitter.Node

    @property
    def id(self) -> int:
        """The identity of the node, whatever object stands for it."""
        return self.node.id

    @property
    def span(self) -> Span:
        """Where it stands."""
        return self.tree.span(self.node)

    @property
    def is_statement(self) -> bool:
        """Whether nothing asks for its output, and nothing but ``&&`` for how it ended."""
        node = self.node
        while (holder := node.parent) is not None and holder.type in ("list", "redirected_statement"):
            if any(child.type == "||" for child in holder.children):
                return False
            node = holder
        before = node.prev_sibling
        asked = before is not None and before.type in ("if", "while", "until", "elif", "!")
        return holder is None or not (asked or holder.type in ("command_substitution", "pipeline", "negated_command"))


def parse(grammar: str, text: str, span: Span | None = None) -> Tree:
    """Parse ``span`` of ``text``, or all of it."""
    span = span or Span(0, len(text))
    part = text[span.start : span.end]
    masked = TEMPLATE.sub(lambda match: "_" * len(match[0]), part)
    data = masked.encode("utf-8", "surrogatepass")
    tree = tree_sitter.Parser(_language(grammar)).parse(data)
    return Tree(text, span.start, masked, tree.root_node, () if len(data) == len(masked) else _starts(masked))


def _starts(text: str) -> tuple[int, ...]:
    """The byte at which each character starts, and the end."""
    starts, position = [0], 0
    for character in text:
        position += len(character.encode("utf-8", "surrogatepass"))
        starts.append(position)
    return tuple(starts)


@cache
def _language(grammar: str) -> tree_sitter.Language:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a grammar that hands over its address as a number
        return tree_sitter.Language(_GRAMMARS[grammar]())
