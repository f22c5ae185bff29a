"""Statements that import something from where it is no more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from migrator.api import Edit, Insert, Module, Replace, cst, dotted_name, expression


def imports_of(symbols: Collection[str], module: Module) -> Iterator[cst.ImportFrom]:
    """The statements by which ``module`` imports any of ``symbols`` by name."""
    scopes = (module.index.scope, *module.index.scopes.values())
    found: dict[int, cst.ImportFrom] = {}
    for binding in (b for scope in scopes for bindings in scope.bindings.values() for b in bindings):
        statement = module.index.parent(binding.node)
        if binding.symbol in symbols and isinstance(statement, cst.ImportFrom):
            found[id(statement)] = statement
    yield from found.values()


def moved(statement: cst.ImportFrom, places: Mapping[str, tuple[str, str]]) -> list[Edit]:
    """Edits after which names come from other modules: ``places`` are the module and the name for each that moves."""
    assert not isinstance(statement.names, cst.ImportStar)
    source = dotted_name(statement.module)
    named: dict[str, list[str]] = defaultdict(list)
    for alias in statement.names:
        name = dotted_name(alias.name)
        module, new = places.get(name, (source, name))
        text = f"{new} as {alias.evaluated_alias}" if alias.evaluated_alias else new
        named[module] += [] if text in named[module] else [text]
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(named.items())]
    edits: list[Edit] = [Replace(statement, expression(lines[0]))]
    return [*edits, *(Insert(statement, "after", expression(line)) for line in lines[1:])]
