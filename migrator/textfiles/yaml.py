"""Read YAML: the commands in its texts and lists, and its documents as nodes whose places are those of the text."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from ruamel.yaml import YAML
from ruamel.yaml.error import ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from migrator.layout import Span
from migrator.textfiles.blocks import walk
from migrator.textfiles.dependencies import DependencyList, Style, dependency
from migrator.textfiles.document import Command, Expansion, Form, Parts, Variable, Word
from migrator.textfiles.rows import Row
from migrator.textfiles.shell import commands, expansions, shell_in_words, variables
from migrator.textfiles.syntax import TEMPLATE, Tree, parse

_WORTH = re.compile(r"horovod|mpirun|mpiexec|hvd", re.IGNORECASE)
_STATEMENT = re.compile(r"\{%.*?%\}", re.DOTALL)
_LINE_OF_TEMPLATES = re.compile(r"^[ \t]*(?:\{\{[^\n]*?\}\}[ \t]*)+$", re.MULTILINE)
_OF_CONDA = ("dependencies", "conda_dependencies", "run", "host", "build")
_LISTS = (
    *("pip", "pip_packages", "additional_dependencies", "requirements", "packages", "install_requires"),
    *("build_dependencies", "pip_dependencies", "pypi_dependencies", "python_packages"),
    *_OF_CONDA,
)
_OF_STEPS = {"name", "run", "script", "bash", "displayName", "shell", "env", "if", "working-directory"}
_OF_SHELL = ("run", "script", "bash", "command")
_NAMES = ("name", "displayName", "label", "description", "title", "id", "image", "uses", "if", "key")
_OF_VARIABLES = ("environment", "env", "variables", "args")
_SETTING = re.compile(r"[A-Za-z_]\w*(=|$)")
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
    used: list[Expansion] = []
    listed: list[DependencyList] = []
    for document in documents:
        jobs = {id(part) for node in walk(document) if is_mpi_job(node) for part in walk(node)}
        holders, owners = _holders(text, document), _owners(document)
        for node in _nodes(document):
            if id(node) in jobs:
                if isinstance(node, ScalarNode) and (shell := _shell(text, node)) is not None:
                    held += commands(shell, outer=node.style if node.style in ("'", '"') else "")
                continue
            if isinstance(node, SequenceNode) and (command := command_of(text, node)) is not None:
                found += (command, *shell_in_words(text, command))
            elif isinstance(node, ScalarNode) and _key(node, owners) in _NAMES:
                continue
            elif isinstance(node, ScalarNode) and (shell := _shell(text, node)) is not None:
                shell = replace(shell, holder=_step(text, node, owners, holders), nothing=":" if node.style else '":"')
                inside = tuple(commands(shell, outer=node.style if node.style in ("'", '"') else ""))
                found += inside
                set_there += variables(shell) if inside else ()
                used += expansions(shell)
            elif isinstance(node, MappingNode):
                set_there += _variables(text, node, holders)
                listed += _dependencies(text, node, holders)
    return Parts(
        tuple(found),
        tuple(set_there),
        expansions=tuple(used),
        dependencies=tuple(listed),
        documents=tuple(documents),
        held=tuple(held),
    )


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


Holders = Mapping[int, tuple[Row, int]]


def _owners(document: Node) -> dict[int, MappingNode]:
    """For each value of a mapping, the mapping."""
    mappings = (node for node in _nodes(document) if isinstance(node, MappingNode))
    return {id(value): mapping for mapping in mappings for _, value in mapping.value}


def _holders(text: str, document: Node) -> Holders:
    """For each value of a mapping or item of a list, the row that it stands in."""
    found: dict[int, tuple[Row, int]] = {}
    for node in _nodes(document):
        spans: tuple[Span, ...] = ()
        values: list[Node] = []
        if isinstance(node, MappingNode):
            spans = tuple(Span(key.start_mark.index, _end(text, value)) for key, value in node.value)
            values = [value for _, value in node.value]
        elif isinstance(node, SequenceNode):
            spans = tuple(_item(text, item, is_flow=bool(node.flow_style)) for item in node.value)
            values = list(node.value)
        # An alias has the place of its anchor.
        ends = (Span(start, start) for start in (node.start_mark.index, node.end_mark.index))
        around = pairwise((next(ends), *spans, next(ends)))
        if all(a.end <= b.start and b.start <= b.end for a, b in around):
            row = Row(spans)
            found |= {id(value): (row, index) for index, value in enumerate(values)}
    return found


def _key(node: ScalarNode, owners: Mapping[int, MappingNode]) -> str:
    """The key of a value."""
    mapping = owners.get(id(node))
    pairs = mapping.value if mapping is not None else ()
    return next((str(key.value) for key, value in pairs if value is node and isinstance(key, ScalarNode)), "")


def _step(text: str, node: ScalarNode, owners: Mapping[int, MappingNode], holders: Holders) -> Span | None:
    """The item of a list that goes with a text of shell: the text itself, or a step that does nothing else."""
    place = holders.get(id(node))
    if place is None:
        return None
    mapping = owners.get(id(node))
    if mapping is not None:
        keys = {str(key.value) for key, _ in mapping.value}
        is_step = keys <= _OF_STEPS and _key(node, owners) in _OF_SHELL
        place = holders.get(id(mapping)) if is_step else None
    span = place[0].items[place[1]] if place is not None and len(place[0].items) > 1 else None
    return span if span is not None and text.startswith("-", span.start) else None


def _end(text: str, node: Node) -> int:
    """Where the last character of a node stands, which of a block ends before what follows it."""
    if isinstance(node, ScalarNode) and node.style in ("|", ">"):
        return int(node.start_mark.index) + len(text[node.start_mark.index : node.end_mark.index].rstrip())
    if isinstance(node, (MappingNode, SequenceNode)) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(node, MappingNode) else last)
    return int(node.end_mark.index)


def _item(text: str, node: Node, *, is_flow: bool) -> Span:
    """An item of a list, with the dash before it."""
    start = int(node.start_mark.index)
    return Span(start if is_flow else text.rfind("-", 0, start), _end(text, node))


def _dependencies(text: str, node: MappingNode, holders: Holders) -> Iterator[DependencyList]:
    """What the lists of conda, of pip within them, and of those who take the same ask for."""
    for key, value in node.value:
        name = str(key.value) if isinstance(key, ScalarNode) else ""
        if name not in _LISTS or not isinstance(value, SequenceNode):
            continue
        asked = tuple(
            dependency(str(item.value) if isinstance(item, ScalarNode) else "", span_of(item)) for item in value.value
        )
        place = holders.get(id(value.value[0])) if value.value else None
        row = place[0] if place is not None else Row(())
        entry = holders.get(id(value))
        if entry is not None and len(entry[0].items) == 1 and id(node) in holders:
            entry = holders[id(node)]
        quoted = json.dumps if value.flow_style else (lambda new: f"- {new}")
        style: Style = "conda" if name in _OF_CONDA else "pip"
        is_part = name == "pip" or name == "additional_dependencies"
        yield DependencyList(name, style, asked, row, quoted, entry if is_part else None, bool(value.flow_style))


def _variables(text: str, node: MappingNode, holders: Holders) -> Iterator[Variable]:
    """What a mapping sets of Horovod's variables: ``NAME: value``, or ``name: NAME`` with ``value: value``."""
    pairs = [(key, value) for key, value in node.value if isinstance(key, ScalarNode)]
    by_name = {str(key.value): value for key, value in pairs}
    named, above = by_name.get("name"), holders.get(id(node))
    over = (above,) if above is not None else ()
    if isinstance(named, ScalarNode) and "value" in by_name and above is not None:
        value = by_name["value"]
        known = str(value.value) if isinstance(value, ScalarNode) else ""
        yield Variable(str(named.value), known, span_of(named), span_of(node), above, _over(holders, above))
    for key, value in pairs:
        if str(key.value).isupper() and isinstance(value, ScalarNode) and id(value) in holders:
            span = Span(key.start_mark.index, value.end_mark.index)
            yield Variable(str(key.value), str(value.value), span_of(key), span, holders[id(value)], over)
        elif key.value in _OF_VARIABLES and isinstance(value, SequenceNode):
            yield from _listed_variables(value, holders)


def _listed_variables(node: SequenceNode, holders: Holders) -> Iterator[Variable]:
    """What a list of ``NAME=value`` sets, as compose files have them."""
    over = (holders[id(node)],) if id(node) in holders and not node.flow_style else ()
    if all(isinstance(e, ScalarNode) and id(e) in holders and _SETTING.match(str(e.value)) for e in node.value):
        for item in node.value:
            name, _, value = str(item.value).partition("=")
            yield Variable(name, value, span_of(item), span_of(item), holders[id(item)], over)


def _over(holders: Holders, place: tuple[Row, int]) -> tuple[tuple[Row, int], ...]:
    """The pair whose value is the list that ``place`` is in."""
    start = min(span.start for span in place[0].items)
    found = [held for held in holders.values() if held[0].items[held[1]].start < start <= held[0].items[held[1]].end]
    return tuple(sorted(found, key=lambda held: held[0].items[held[1]].start)[-1:])
