"""Block YAML as stretches of text: entries by the lines that they stand on, which can be moved to another indentation.

Nothing is printed anew: what a rule does not change keeps its bytes, its comments, and its place among the others.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from migrator.layout import Span
from migrator.textfiles.document import TextEdit, Word, apply

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node as Node

_PLAIN = re.compile(r"-{0,2}[A-Za-z_./][\w./:=+-]*")
_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")


@dataclass(frozen=True, eq=False)
class Entry:
    """An entry of a mapping or an item of a list: from its key or dash to the end of its last line, that included."""

    key: str
    node: Node
    span: Span
    column: int


def is_mapping(node: Node) -> bool:
    """Whether a node is a mapping. Its class would need the parser, of which most runs have no need."""
    return getattr(node, "id", "") == "mapping"


def is_sequence(node: Node) -> bool:
    """Whether a node is a list."""
    return getattr(node, "id", "") == "sequence"


def is_scalar(node: Node) -> bool:
    """Whether a node is neither mapping nor list."""
    return getattr(node, "id", "") == "scalar"


def is_flow(node: Node) -> bool:
    """Whether a mapping or list is written in brackets."""
    return bool(getattr(node, "flow_style", False))


def entries(text: str, node: Node) -> tuple[Entry, ...]:
    """The entries of a mapping, or of a list, whose items have no key; none of anything else."""
    if is_mapping(node):
        return tuple(_entry(text, str(key.value), value, key.start_mark) for key, value in node.value)
    if is_sequence(node) and not is_flow(node):
        return tuple(_item(text, node, item) for item in node.value)
    return ()


def entry(text: str, node: Node | None, *keys: str) -> Entry | None:
    """The entry at the end of a path of keys; a number is that of a list's item."""
    found: Entry | None = None
    for key in keys:
        if node is None:
            return None
        inside = entries(text, node)
        if is_sequence(node):
            found = inside[int(key)] if key.isdigit() and int(key) < len(inside) else None
        else:
            found = next((each for each in inside if each.key == key), None)
        node = found.node if found else None
    return found


def scalar(found: Entry | None) -> str:
    """The value of an entry that is a scalar, else nothing."""
    value = str(found.node.value) if found is not None and is_scalar(found.node) else ""
    return value.replace("\a", "")  # where the parser of comments remembers that a folded line ended


def value_span(node: Node) -> Span:
    """Where a node stands, without the lines after it that belong to nothing."""
    return Span(node.start_mark.index, _end(node))


def word_of(text: str, node: Node) -> Word:
    """A scalar as a word of a command."""
    span = value_span(node)
    source = text[span.start : span.end]
    is_known = "{{" not in source and "$[[" not in source
    value = str(node.value) if is_known else source.strip("\"'")
    return Word(value, value, span, is_known)


def moved(text: str, by: int) -> str:
    """``text``, whose first line starts at its content, with every other line ``by`` columns further to the right."""
    first, *rest = text.splitlines(keepends=True)
    return first + "".join(_shifted(line, by) for line in rest)


def comments(text: str, roots: Iterable[Node]) -> Iterator[str]:
    """The comments of a file: what starts with ``#`` after a blank or a line's start, outside scalars."""
    scalars = sorted(place for root in roots for place in _places_of_scalars(root))
    starts = [start for start, _ in scalars]
    position = 0
    while (position := text.find("#", position)) >= 0:
        holder = bisect_right(starts, position) - 1
        if holder >= 0 and position < scalars[holder][1]:
            position = scalars[holder][1]
            continue
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        if position == 0 or text[position - 1] in " \t\n":
            yield text[position:end].rstrip()
            position = end
        else:
            position += 1


def is_shared(root: Node) -> bool:
    """Whether part of a node is written elsewhere, or may be used elsewhere: aliases, merges and anchors."""
    first, last = root.start_mark.index, root.end_mark.index
    return any(node.anchor or not first <= node.start_mark.index <= last for node in walk(root))


def _entry(text: str, key: str, value: Node, mark: object) -> Entry:
    start = mark.index  # type: ignore[attr-defined]
    end = max(_end(value), start + len(key))
    return Entry(key, value, Span(start, _line_end(text, end)), mark.column)  # type: ignore[attr-defined]


def _item(text: str, holder: Node, node: Node) -> Entry:
    dash = text.rfind("-", holder.start_mark.index, node.start_mark.index)
    column = dash - (text.rfind("\n", 0, dash) + 1)
    return Entry("", node, Span(dash, _line_end(text, max(_end(node), dash + 1))), column)


def _line_end(text: str, position: int) -> int:
    if text[position - 1 : position] == "\n":
        return position
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _end(node: Node) -> int:
    """Where the content of a node ends: a block collection's mark stands at what follows it."""
    if is_scalar(node) or is_flow(node):
        return _scalar_end(node)
    if not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1]) if is_mapping(node) else _end(last)


def _scalar_end(node: Node) -> int:
    end = int(node.end_mark.index)
    if is_scalar(node) and getattr(node, "style", None) in ("|", ">"):
        source = str(node.end_mark.buffer)[node.start_mark.index : end]
        return int(node.start_mark.index) + len(source.rstrip())
    return end


def walk(root: Node) -> Iterator[Node]:
    """A node and all below it, keys too, each once."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if is_mapping(node):
            waiting += [part for pair in node.value for part in pair]
        elif is_sequence(node):
            waiting += node.value


def _places_of_scalars(root: Node) -> Iterator[tuple[int, int]]:
    for node in walk(root):
        if is_scalar(node):
            span = value_span(node)
            yield span.start, span.end


def _shifted(line: str, by: int) -> str:
    if by >= 0:
        return " " * by + line if line.strip() else line
    blanks = len(line) - len(line.lstrip(" "))
    return line[min(-by, blanks) :]


def key_span(text: str, found: Entry) -> Span:
    """Where the key of an entry stands, quotes and all."""
    quotes = 2 * (text[found.span.start] in "\"'")
    return Span(found.span.start, found.span.start + len(found.key) + quotes)


def quoted(word: str) -> str:
    """A word as YAML writes a string: plain where it can be taken for nothing else."""
    plain = _PLAIN.fullmatch(word) and word.lower() not in _WORDS and not word.endswith(":")
    return word if plain else json.dumps(word, ensure_ascii=False)


def edited(text: str, span: Span, edits: Iterable[TextEdit]) -> str:
    """What ``span`` is after those of ``edits`` that lie in it."""
    inside = [edit for edit in edits if span.start <= edit.span.start and edit.span.end <= span.end]
    shifted = (TextEdit(Span(e.span.start - span.start, e.span.end - span.start), e.text) for e in inside)
    return apply(text[span.start : span.end], shifted)


def documents_of(text: str) -> Sequence[Node]:
    """The documents of a YAML file as nodes. Raises ValueError where it cannot be read."""
    from migrator.textfiles.yaml import read_yaml

    parts = read_yaml(text)
    if parts.problem is not None:
        raise ValueError(parts.problem[1])
    return parts.documents


def source(text: str, span: Span) -> str:
    """How something is written."""
    return text[span.start : span.end]
