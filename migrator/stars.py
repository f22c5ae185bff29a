"""What star imports bind: names of other files of the program, or of a library whose symbols are known."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import Protocol

import libcst as cst

from migrator.api import Module
from migrator.bindings import Binding, dotted_name, source_of

_OF_NOTEBOOKS = ("get_ipython", "display", "displayHTML", "spark", "sc", "sqlContext", "dbutils")
BUILT_IN = frozenset((*dir(builtins), "__file__", "__path__", *_OF_NOTEBOOKS))


class Symbols(Protocol):
    """What is known of symbols and files."""

    def find(self, module: Module, name: str, /) -> Module | None:
        """The module of the program that ``name`` means when ``module`` imports it."""

    def is_known(self, symbol: str) -> bool:
        """Whether a rule answers for ``symbol``, or for something that it holds."""

    def is_relevant(self, symbol: str) -> bool:
        """Whether ``symbol`` is one that rules answer for, lies under one, or leads to one."""


def unbound_names(module: Module) -> list[str]:
    """The names that the module reads and does not bind."""
    return [n for n, uses in module.index.references.items() if any(r.scope.home(n) is None for r in uses)]


def bind_stars(modules: Sequence[Module], symbols: Symbols) -> None:
    """Add bindings for what star imports bring in of Horovod; a file may pass it on by a star import of its own."""
    wanted = {id(module): set(unbound_names(module)) for module in modules if module.index.stars}
    for holder, name in _taken(modules, symbols) if wanted else ():
        if id(holder) in wanted:
            wanted[id(holder)].add(name)
    growing = bool(wanted)
    while growing:
        growing = False
        for module in modules:
            for statement, source in module.index.stars:
                exporter = symbols.find(module, source)
                for name in sorted(wanted[id(module)] - module.index.scope.bindings.keys()):
                    joint = "" if source.endswith(".") else "."
                    symbol = f"{source}{joint}{name}"
                    if exporter is None and not symbols.is_known(symbol):
                        continue
                    if exporter is None or _exports(exporter, name, symbols):
                        binding = Binding(name, module.index.scope, "import", statement, symbol=symbol)
                        module.index.scope.bindings[name].append(binding)
                        growing = True
                    elif id(exporter) in wanted and name not in wanted[id(exporter)]:
                        wanted[id(exporter)].add(name)
                        growing = True


def _taken(modules: Sequence[Module], symbols: Symbols) -> Iterator[tuple[Module, str]]:
    """The names that modules take from others of the program: ``from comm import rank``, ``comm.rank``."""
    for module in modules:
        for scope in (module.index.scope, *module.index.scopes.values()):
            for binding in (b for bindings in scope.bindings.values() for b in bindings if b.symbol):
                source, name = source_of(str(binding.symbol))
                if source and (target := symbols.find(module, source)):
                    yield target, name
        for name, attributes in module.index.attributes.items():
            for source in {_source(node.value, module) for node in attributes} - {""}:
                if target := symbols.find(module, source):
                    yield target, name


def _source(node: cst.BaseExpression, module: Module) -> str:
    """The dotted name of the module that ``node`` may be, through the imports of ``module``."""
    root, _, rest = dotted_name(node).partition(".")
    found = {binding.symbol for binding in module.index.scope_of(node).lookup(root)} if root else set()
    symbol = found.pop() if len(found) == 1 else None
    return f"{symbol}.{rest}" if symbol and rest else symbol or ""


def _exports(module: Module, name: str, symbols: Symbols) -> bool:
    bindings = module.index.scope.bindings.get(name, ())
    found = any(isinstance(b.node, cst.ImportFrom) or (b.symbol and symbols.is_relevant(b.symbol)) for b in bindings)
    return found and not name.startswith("_")
