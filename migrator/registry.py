"""Find the rules: this package's and, by entry point, other people's."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from migrator.api import Context, Document, Finding, Planner, Site, Surroundings, TextFinding

Answer = Callable[["Site", "Context"], "Finding | tuple[Finding, ...]"]
FileAnswer = Callable[["Document", "Surroundings"], "Iterable[TextFinding]"]
ENTRY_POINT_GROUP = "hvd_migrate.rules"


@dataclass(frozen=True)
class Rule:
    """What answers for some symbols; ``title`` and ``documentation`` come from its module's docstring."""

    id: str
    name: str
    symbols: tuple[str, ...]
    answer: Answer | None
    documentation: str

    @property
    def title(self) -> str:
        """The first line of the documentation, without the ID and name that it repeats."""
        return self.documentation.partition("\n")[0].partition(": ")[2]


@dataclass
class Registry:
    """Every rule by symbol, those for files beside the code, the planners, and other names of symbols.

    ``shared`` are packages that hold some roots and much else.
    """

    rules: dict[str, Rule] = field(default_factory=dict)
    by_symbol: dict[str, Rule] = field(default_factory=dict)
    planners: list[Planner] = field(default_factory=list)
    of_files: list[tuple[Rule, FileAnswer]] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    roots: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)

    def add(self, rule: Rule) -> None:
        """Register ``rule``; raises ValueError where its ID or one of its symbols is taken."""
        for symbol in rule.symbols:
            if symbol in self.by_symbol:
                raise ValueError(f"{symbol} has two rules: {self.by_symbol[symbol].id} and {rule.id}")
            self.by_symbol[symbol] = rule
        if self.rules.setdefault(rule.id, rule) is not rule and self.rules[rule.id].name != rule.name:
            raise ValueError(f"two rules are called {rule.id}")

    def rule_for(self, symbol: str) -> Rule | None:
        """The rule of ``symbol``, or of all that lies under a module, which is registered as ``module.*``."""
        head, found = symbol, self.by_symbol.get(symbol)
        while found is None and (head := head.rpartition(".")[0]):
            found = self.by_symbol.get(f"{head}.*")
        return found

    def canonical(self, symbol: str) -> str:
        """The name under which rules know ``symbol``: the longest registered alias prefix replaced."""
        head = symbol
        while head:
            if head in self.aliases:
                return self.aliases[head] + symbol[len(head) :]
            head = head.rpartition(".")[0]
        return symbol


REGISTRY = Registry()


def documentation_of(answer: Answer | FileAnswer) -> str:
    """The docstring of the rule, or of its module where the function has none."""
    own = inspect.getdoc(answer)
    return own or inspect.getdoc(inspect.getmodule(answer)) or ""


@cache
def load_rules() -> Registry:
    """Import every rule package named by an entry point and return the filled registry."""
    importlib.import_module("migrator.notices")
    for package in sorted({point.value for point in entry_points(group=ENTRY_POINT_GROUP)}):
        module = importlib.import_module(package)
        for found in pkgutil.walk_packages(module.__path__, package + "."):
            importlib.import_module(found.name)
    return REGISTRY
