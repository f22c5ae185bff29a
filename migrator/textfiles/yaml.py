"""Read YAML: the commands in its texts and lists, and its documents as nodes whose places are those of the text."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator

from ruamel.yaml import YAML
from ruamel.yaml.error import ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from migrator.layout import Span
from migrator.textfiles.blocks import walk
from migrator.textfiles.document import Command, Form, Parts, Variable, Word
from migrator.textfiles.shell import commands, shell_in_words, variables
from migrator.textfiles.syntax import TEMPLATE, Tree, parse

_WORTH = re.compile(r"horovod|mpirun|mpiexec|hvd", re.IGNORECASE)
_STATEMENT = re.compile(r"\{%.*?%\}", re.DOTALL)
_LINE_OF_TEMPLATES = re.compile(r"^[ \t]*(?:\{\{[^\n]*?\}\}[ \t]*)+$", re.MULTILINE)
_SAFE = re.compile(r"-{0,2}[A-Za-z_./][\w./:=+-]*")


def read_yaml(text: str) -> Parts:
    """The parts of a YAML file; templates in it are taken for words."""
    try:
        documents = compose(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return Parts(problem=(mark.index if mark else 0, f"not valid YAML: {getattr(error, 'problem', None) or error}"))
    except (RecursionError, ValueError) as error:
        return Parts(problem=(0, f"not valid YAML: {error}"))
    found: list[Command] = []
    held: list[Command] = []
    set_there: list[Variable] = []
    for document in documents:
        jobs = {id(part) for node in walk(document) if is_mpi_job(node) for part in walk(node)}
        for node in _nodes(document):
            if id(node) in jobs:
                if isinstance(node, ScalarNode) and (shell := _shell(text, node)) is not None:
                    held += commands(shell, outer=node.style if node.style in ("'", '"') else "")
                continue
            if isinstance(node, SequenceNode) and (command := command_of(text, node)) is not None:
                found += (command, *shell_in_words(text, command))
            elif isinstance(node, ScalarNode) and (shell := _shell(text, node)) is not None:
                found += commands(shell, outer=node.style if node.style in ("'", '"') else "")
                set_there += variables(shell)
            elif isinstance(node, MappingNode):
                set_there += _variables(text, node)
    return Parts(tuple(found), tuple(set_there), tuple(documents), held=tuple(held))


def compose(text: str) -> list[Node]:
    """The documents of a YAML text as nodes. Raises YAMLError, RecursionError or ValueError."""
    masked = _STATEMENT.sub(lambda match: " " * len(match[0]), text)
    masked = _LINE_OF_TEMPLATES.sub(lambda match: " " * len(match[0]), masked)
    masked = TEMPLATE.sub(lambda match: "_" * len(match[0]), masked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReusedAnchorWarning)
        return [node for node in YAML(typ="rt", pure=True).compose_all(masked) if node is not None]


def is_mpi_job(node: Node) -> bool:
    """Whether a mapping is a manifest of an MPIJob, whose own rule reads what is in it."""
    if not isinstance(node, MappingNode):
        return False
    return any(key.value == "kind" and value.value == "MPIJob" for key, value in node.value)


def span_of(node: Node) -> Span:
    """Where a scalar or a flow collection stands; of a block, to the start of what follows it."""
    return Span(node.start_mark.index, node.end_mark.index)


def command_of(text: str, node: SequenceNode) -> Command | None:
    """A list as a command, where it is one that is written word by word."""
    items = [item for item in node.value if isinstance(item, ScalarNode)]
    names = {item.value.rpartition("/")[2] for item in items}
    if len(items) != len(node.value) or not names & {"horovodrun", "mpirun", "mpiexec"}:
        return None
    words = tuple(_word(text, item) for item in items)
    gap = text[words[0].span.end : words[1].span.start] if len(words) > 1 and not node.flow_style else ", "
    if "#" in gap:
        gap = "\n" + " " * node.start_mark.column + "- "
    return Command(words, Form(gap, _quoted if not node.flow_style else json.dumps))


def _quoted(word: str) -> str:
    return word if _SAFE.fullmatch(word) else json.dumps(word, ensure_ascii=False)


def _word(text: str, node: ScalarNode) -> Word:
    span = span_of(node)
    is_known = TEMPLATE.search(text[span.start : span.end]) is None
    value = str(node.value) if is_known else text[span.start : span.end].strip("\"'")
    return Word(value, value, span, is_known)


def _nodes(node: Node) -> Iterator[Node]:
    """Every node once, whatever aliases there are, holders first; keys are not among them."""
    waiting, seen = [node], set[int]()
    while waiting:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        yield here
        if isinstance(here, MappingNode):
            waiting += [value for _, value in reversed(here.value)]
        elif isinstance(here, SequenceNode) and command_of_names(here) is None:
            waiting += reversed(here.value)


def command_of_names(node: SequenceNode) -> str | None:
    """The launcher that a list names as one of its words."""
    for item in node.value:
        if isinstance(item, ScalarNode) and item.value.rpartition("/")[2] in ("horovodrun", "mpirun", "mpiexec"):
            return str(item.value)
    return None


def _shell(text: str, node: ScalarNode) -> Tree | None:
    """A text as shell, if there is anything in it; line ends that YAML makes into blanks are blanks."""
    span = span_of(node)
    source = text[span.start : span.end]
    if not _WORTH.search(source):
        return None
    if node.style in ("|", ">"):
        start = source.find("\n") + 1
        span, source = Span(span.start + start, span.end), source[start:]
    elif node.style in ("'", '"'):
        span, source = Span(span.start + 1, span.end - 1), source[1:-1]
        if "\\" in source or "''" in source:
            return None
    seen = source if node.style == "|" else source.replace("\n", " ")
    shell = parse("bash", text[: span.start] + seen + text[span.end :], span)
    return Tree(text, shell.start, shell.masked, shell.root, shell.starts)


def _variables(text: str, node: MappingNode) -> Iterator[Variable]:
    """What a mapping sets of Horovod's variables: ``NAME: value``, or ``name: NAME`` with ``value: value``."""
    pairs = [(key, value) for key, value in node.value if isinstance(key, ScalarNode)]
    by_name = {str(key.value): value for key, value in pairs}
    named = by_name.get("name")
    if isinstance(named, ScalarNode) and "value" in by_name:
        value = by_name["value"]
        known = str(value.value) if isinstance(value, ScalarNode) else ""
        yield Variable(str(named.value), known, span_of(named), span_of(node))
    for key, value in pairs:
        if key.value.isupper() and isinstance(value, ScalarNode):
            yield Variable(
                str(key.value), str(value.value), span_of(key), Span(key.start_mark.index, value.end_mark.index)
            )
