"""The source of helpers, with the lines chosen that their features ask for."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_CONDITION = re.compile(r"  # ((?:with|without) \w+(?:, (?:with|without) \w+)*)$")
_PACKAGE = "migrator.helpers"


@dataclass(frozen=True)
class HelperSource:
    """The text of a function or class, the modules that it needs and the helpers that it calls."""

    name: str
    text: str
    imports: tuple[tuple[str, str, str], ...]
    helpers: tuple[str, ...]


@cache
def helper_source(name: str, features: frozenset[str] = frozenset()) -> HelperSource:
    """Read helper ``name`` with ``features``; raises FileNotFoundError for a name that has no file.

    ``tensorflow.size`` lies in the folder ``tensorflow``.
    """
    *folders, file = name.split(".")
    raw = files(_PACKAGE).joinpath("sources", *folders, f"{file}.py").read_text(encoding="utf-8")
    text = "\n".join(line for line in (_chosen(each, features) for each in raw.splitlines()) if line is not None)
    tree = ast.parse(text)
    definition = next(node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    first = min(node.lineno for node in (definition, *definition.decorator_list))
    body = "\n".join(text.splitlines()[first - 1 : definition.end_lineno])
    used = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    return HelperSource(definition.name, body, _imports(tree, used), _helpers(tree, used))


def _chosen(line: str, features: Collection[str]) -> str | None:
    """The line without its condition; None where the condition does not hold."""
    match = _CONDITION.search(line)
    if match is None:
        return line
    conditions = (condition.split() for condition in match[1].split(", "))
    holds = all((feature in features) == (word == "with") for word, feature in conditions)
    return line[: match.start()] if holds else None


def _imports(tree: ast.Module, used: Collection[str]) -> tuple[tuple[str, str, str], ...]:
    found: list[tuple[str, str, str]] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            found += [(item.name, "", item.asname or "") for item in node.names if _local(item) in used]
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(_PACKAGE):
            found += [(node.module or "", item.name, item.asname or "") for item in node.names if _local(item) in used]
    return tuple(found)


def _helpers(tree: ast.Module, used: Collection[str]) -> tuple[str, ...]:
    return tuple(
        (node.module or "").removeprefix(f"{_PACKAGE}.")
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE)
        if any(_local(item) in used for item in node.names)
    )


def _local(item: ast.alias) -> str:
    return item.asname or item.name.partition(".")[0]
