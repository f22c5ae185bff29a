"""What is said of the lines and cells of a notebook that are not Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

import libcst as cst

from migrator.api import Finding, Site
from migrator.layout import Span
from migrator.notebooks.text import Fragment
from migrator.result import Class
from migrator.source import Notebook

_HOROVOD = re.compile(r"(?i:horovod)|\bhvd\.|\bHorovodRunner\b|\bOMPI_COMM_WORLD_")
HIDDEN_RUN = "%run of a file that uses Horovod, in a block: run it outside, so that its names can be followed"
_INTERPOLATED = re.compile(r"\{([^{}]*)\}|\$(\w+)")
_WORD = re.compile(r"\b[^\W\d]\w*")


def names_of(bindings: Collection[str], sites: Sequence[Site]) -> frozenset[str]:
    """The names by which a module uses Horovod."""
    return frozenset((*bindings, *(_root(site.node) for site in sites)))


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def notices(
    notebook: Notebook, names: frozenset[str], tree: cst.Module, is_of_program: Callable[[str], bool]
) -> Iterator[tuple[Span, Finding, frozenset[str]]]:
    """Findings on what is not Python, each with its place and the names of Horovod that it needs to stay.

    ``is_of_program`` says whether what ``%run`` names is a file that uses Horovod.
    """
    module = notebook.module
    for fragment in module.fragments:
        is_followed = fragment.kind != "run" or fragment.argument in module.runs.values()
        if not is_followed and is_of_program(fragment.argument):
            yield fragment.span, Finding(tree, "blocked", HIDDEN_RUN), frozenset()
        elif found := _notice(fragment, names):
            class_, message, used = found
            yield fragment.span, Finding(tree, class_, message), used


def _notice(fragment: Fragment, names: frozenset[str]) -> tuple[Class, str, frozenset[str]] | None:
    magic = _shown(fragment)
    text = f"{fragment.argument}\n{fragment.text}" if fragment.is_cell else fragment.text
    words = frozenset(_WORD.findall(text)) & names
    passed = frozenset(_WORD.findall(" ".join(map("".join, _INTERPOLATED.findall(text))))) & names
    if fragment.kind == "code" and (words or _HOROVOD.search(text)):
        return "blocked", f"{magic} hides code that uses Horovod: write it as Python of the notebook", words
    if fragment.kind != "code" and passed and not _is_body(fragment):
        return "blocked", f"{magic} is given {', '.join(sorted(passed))}, which is Horovod's: compute it above", passed
    if words and "?" in (fragment.text[:1], fragment.text[-1:]):
        return (
            "review",
            f"the question {fragment.text.strip()} is about Horovod, which is not imported any more",
            frozenset(),
        )
    if fragment.kind == "text" or not _HOROVOD.search(text):
        return None
    if fragment.kind == "packages":
        return "review", f"{magic} installs Horovod, which the code does not need any more: take it out", frozenset()
    if fragment.kind == "file" and fragment.argument.endswith(".py"):
        where = f"{magic} writes a program that uses Horovod"
        return (
            "blocked",
            f"{where}: keep {fragment.argument.split()[-1]} as a file, so that it is migrated too",
            frozenset(),
        )
    if fragment.kind == "run":
        return None
    return "review", f"{magic} names Horovod, and is left as it is: what starts ranks now is torchrun", frozenset()


def _is_body(fragment: Fragment) -> bool:
    """Whether the text is not given to Python's variables: IPython fills them in on the line of a magic only."""
    return fragment.is_cell and not fragment.argument


def _shown(fragment: Fragment) -> str:
    if fragment.name in ("!", "!!"):
        return f"the shell line {fragment.name}{' '.join(fragment.text.lstrip('!').split())[:40]}"
    return f"%{fragment.name}" if fragment.name else "a magic"
