"""All that a rule may import.

A rule is a function from a :class:`Site` and a :class:`Context` to findings; it is registered with :func:`rule`. What
one call means often depends on a decision made elsewhere: a planner, registered with :func:`planner`, makes it once for
the program, before any rule runs, and hands it on as a frozen plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

import libcst as cst

from migrator.bindings import Binding, Index, Reference, Scope, children_of, dotted_name
from migrator.calls import Definition, Functions, definition_of, parameter_of
from migrator.config import Settings
from migrator.edits import Drop, Edit, Import, Insert, Remove, Replace, Template, Unwrap
from migrator.layout import Span
from migrator.registry import REGISTRY, Answer, FileAnswer, Rule, documentation_of
from migrator.result import Class
from migrator.textfiles import blocks
from migrator.textfiles.dependencies import Dependency, DependencyList, allows_from, distribution_of, extras_of
from migrator.textfiles.document import Command, Document, Expansion, TextEdit, Variable, Word, apply, reworded
from migrator.textfiles.reading import commands_in
from migrator.textfiles.rows import Row, whole_lines
from migrator.textfiles.surroundings import Moved, Script, Surroundings

__all__ = [
    "Binding",
    "Class",
    "Command",
    "Context",
    "Definition",
    "Dependency",
    "DependencyList",
    "Document",
    "Drop",
    "Edit",
    "Expansion",
    "Finding",
    "Helper",
    "Import",
    "InPlace",
    "Index",
    "Insert",
    "Module",
    "Moved",
    "Needs",
    "NextStep",
    "Note",
    "Reference",
    "RefusalError",
    "Remove",
    "Replace",
    "Row",
    "Scope",
    "Script",
    "Shell",
    "Site",
    "Span",
    "StartedBy",
    "Surroundings",
    "Template",
    "TextEdit",
    "TextFinding",
    "Unwrap",
    "Variable",
    "Word",
    "allows_from",
    "also_known_as",
    "answers_for",
    "apply",
    "blocks",
    "children_of",
    "commands_in",
    "cst",
    "definition_of",
    "distribution_of",
    "dotted_name",
    "expression",
    "extras_of",
    "file_rule",
    "parameter_of",
    "planner",
    "reworded",
    "rule",
    "whole_lines",
]

T = TypeVar("T")


class RefusalError(Exception):
    """A site that cannot be migrated; the message is the reason that the reviewer reads."""


@dataclass(frozen=True)
class Helper:
    """A small function that emitted code calls; ``features`` choose among its optional lines."""

    name: str
    features: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Finding:
    """What a rule says of a site, with the edits that go with it; ``place`` is that of a text that a shell gets."""

    node: cst.CSTNode
    class_: Class
    message: str
    edits: tuple[Edit, ...] = ()
    imports: tuple[Import, ...] = ()
    helpers: tuple[Helper, ...] = ()
    place: Span | None = None


@dataclass(frozen=True)
class Shell:
    """A text in a notebook that is given to a shell: its place, and how another is written there."""

    text: str
    span: Span
    written: Callable[[str], str]


@dataclass(frozen=True)
class TextFinding:
    """What a rule says of a place in a file beside the code, with its edits.

    The file moves only if ``programs`` did. ``launchers`` are folders into which a launcher is put.
    """

    span: Span
    class_: Class
    message: str
    edits: tuple[TextEdit, ...] = ()
    programs: tuple[Moved, ...] = ()
    launchers: tuple[Path, ...] = ()
    symbol: str = ""


@dataclass(frozen=True, eq=False)
class Module:
    """One file of a program, parsed and indexed; ``path`` is how reports name it.

    ``project`` are the dotted names, as they are imported here, of other files of the project; ``functions`` are those
    of the whole program; ``symbols`` what was found to be a symbol, by the identity of the node that names it.
    """

    path: str
    text: str
    index: Index
    project: frozenset[str] = frozenset()
    functions: Functions = field(default_factory=Functions)
    symbols: dict[int, str] = field(default_factory=dict)
    shells: tuple[Shell, ...] = ()

    def __post_init__(self) -> None:
        """Make the module one of its program."""
        self.functions.modules.append(self)

    def holding(self, node: cst.CSTNode) -> Module:
        """The module of the program in which ``node`` stands."""
        return next((module for module in self.functions.modules if id(node) in module.index.order), self)

    def source(self, node: cst.CSTNode) -> str:
        """The node's code."""
        return self.index.tree.code_for_node(node)


@dataclass(frozen=True, eq=False)
class Site:
    """A place where a program uses a symbol.

    ``node`` is the expression that names the symbol, ``call`` the call that it is the function of, if it is;
    ``scope`` is the scope it stands in, ``home`` the scope of the import through which it is known. In
    ``setattr(hvd, "rank", ...)`` the ``node`` is the module and ``attribute`` the string that names the symbol in it.
    ``is_annotation`` says that the symbol is named as a type. In a ``shell`` the ``node`` stands nowhere.
    """

    symbol: str
    node: cst.BaseExpression
    call: cst.Call | None
    module: Module
    scope: Scope
    home: Scope
    attribute: cst.SimpleString | None = None
    is_annotation: bool = False
    shell: Shell | None = None

    @property
    def target(self) -> cst.BaseExpression:
        """The whole expression: the call where there is one."""
        return self.call or self.node

    @property
    def statement(self) -> cst.BaseSmallStatement | None:
        """The simple statement that holds the site; None in the head of a compound statement."""
        for holder in self.module.index.ancestors(self.target):
            if isinstance(holder, cst.BaseSmallStatement):
                return holder
            if isinstance(holder, (cst.BaseCompoundStatement, cst.Lambda)):
                return None
        return None

    @property
    def is_discarded(self) -> bool:
        """Whether the site is a statement of its own, so that nobody sees its value."""
        return isinstance(self.module.index.parent(self.target), cst.Expr)

    @property
    def assigned_to(self) -> cst.BaseExpression | None:
        """What the site's value is assigned to, where that is all the statement does."""
        statement = self.module.index.parent(self.target)
        if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
            return statement.targets[0].target
        return None

    def arguments(self, *names: str) -> Mapping[str, cst.BaseExpression]:
        """The call's arguments by the names of the function's parameters.

        Raises RefusalError for ``*args`` and ``**kwargs``, unknown keywords and too many arguments.
        """
        if self.call is None:
            unknown = f"{self.short} is passed on as a value, so its arguments are not known"
            raise RefusalError(f"{unknown}: call it in a function of your own")
        if any(argument.star for argument in self.call.args):
            raise RefusalError("the arguments cannot be determined from the code")
        found: dict[str, cst.BaseExpression] = {}
        for position, argument in enumerate(self.call.args):
            if argument.keyword is None and position >= len(names):
                raise RefusalError("there are more arguments than the function takes")
            name = argument.keyword.value if argument.keyword is not None else names[position]
            if name not in names:
                raise RefusalError(f"the argument {name!r} has no counterpart")
            found[name] = argument.value
        return found

    def replace(
        self,
        new: Template,
        *,
        class_: Class = "exact",
        message: str = "",
        imports: Sequence[Import] = (),
        helpers: Sequence[Helper | str] = (),
    ) -> Finding:
        """A finding that puts ``new`` where the site stands."""
        message = message or f"{self.short} → {self.preview(new)}"
        if self.attribute is None:
            return self.found(class_, message, [Replace(self.target, new)], imports=imports, helpers=helpers)
        holder, _, name = new.text.rpartition(".")
        if not holder.isidentifier() or not name.isidentifier():
            raise RefusalError(f"{self.short} is named by a string, and has no counterpart that could be named so")
        quote = self.attribute.quote
        edits = [Replace(self.node, Template(holder)), Replace(self.attribute, Template(f"{quote}{name}{quote}"))]
        message += ": the string that names it changes too"
        return self.found("review", message, edits, imports=imports, helpers=helpers)

    def preview(self, new: Template) -> str:
        """``new`` as a reviewer reads it, with the parts of the original set in."""
        parts = {name: " ".join(self.module.source(part).split()) for name, part in new.parts.items()}
        text = new.text
        for name, part in parts.items():
            text = text.replace(f"{{{name}}}", part if len(part) <= 60 else "…")
        return text

    def found(
        self,
        class_: Class,
        message: str,
        edits: Iterable[Edit] = (),
        *,
        imports: Sequence[Import] = (),
        helpers: Sequence[Helper | str] = (),
        node: cst.CSTNode | None = None,
    ) -> Finding:
        """A finding at the site, or at ``node``."""
        return Finding(
            node or self.target,
            class_,
            message,
            tuple(edits),
            tuple(imports),
            tuple(map(helper_of, helpers)),
        )

    @property
    def short(self) -> str:
        """The symbol's last name."""
        return self.symbol.rpartition(".")[2]


@dataclass(frozen=True)
class NextStep:
    """A plan that a person carries out after the rewrite: one line, a command where possible."""

    text: str


@dataclass(frozen=True)
class StartedBy:
    """A plan that names what starts the program now: ``torchrun``, ``launch_workers.py``, ``python``."""

    launcher: str


@dataclass(frozen=True)
class Needs:
    """A plan that names a distribution, as in requirements, that the program needs after the rewrite."""

    requirement: str


@dataclass(frozen=True)
class InPlace:
    """A plan that keeps the helpers of the file at ``path`` in it: it is sent elsewhere without its neighbours."""

    path: str


@dataclass(frozen=True)
class Note:
    """A plan that tells a person what the rewrite is for, where that was chosen."""

    text: str


def helper_of(item: Helper | str) -> Helper:
    """``item`` as a helper: a name alone is one without features."""
    return Helper(item) if isinstance(item, str) else item


@dataclass(frozen=True, eq=False)
class Context:
    """What a rule may know beside its site: the settings, the program's modules and sites, and the plans.

    ``keras`` says which Keras the settings name, and why; ``has_strategy`` that Lightning's Trainer takes a strategy.
    """

    settings: Settings
    modules: tuple[Module, ...]
    sites: tuple[Site, ...]
    plans: tuple[object, ...] = ()
    by_symbol: Mapping[str, tuple[Site, ...]] = field(default_factory=dict)
    keras: str = ""
    has_strategy: bool = True

    def uses(self, symbol: str) -> tuple[Site, ...]:
        """The program's sites of ``symbol``."""
        return self.by_symbol.get(symbol, ())

    def plan(self, kind: type[T]) -> Iterator[T]:
        """The plans of one kind."""
        return (plan for plan in self.plans if isinstance(plan, kind))

    def with_plans(self, plans: Iterable[object]) -> Context:
        """This context with ``plans`` added."""
        return replace(self, plans=(*self.plans, *plans))


class Planner(Protocol):
    """Decides for a whole program; returns plans and the sites, without a symbol of their own, that follow."""

    def __call__(self, context: Context) -> tuple[Iterable[object], Iterable[Site]]: ...


def expression(text: str, **parts: cst.CSTNode) -> Template:
    """New code in which ``{name}`` stands for a part of the original."""
    return Template(text, parts)


def rule(id: str, name: str, *, symbols: Sequence[str]) -> Callable[[Answer], Answer]:
    """Register a function as the rule for ``symbols``; its documentation is its docstring, or its module's."""

    def register(answer: Answer) -> Answer:
        REGISTRY.add(Rule(id, name, tuple(symbols), answer, documentation_of(answer)))
        return answer

    return register


def file_rule(id: str, name: str) -> Callable[[FileAnswer], FileAnswer]:
    """Register a function as a rule for files beside the code; it is asked of each."""

    def register(answer: FileAnswer) -> FileAnswer:
        rule = Rule(id, name, (), None, documentation_of(answer))
        REGISTRY.add(rule)
        REGISTRY.of_files.append((rule, answer))
        return answer

    return register


def planner(function: Planner) -> Planner:
    """Register a planner; planners run in the order of registration."""
    REGISTRY.planners.append(function)
    return function


def also_known_as(symbol: str, *others: str) -> None:
    """Say that everything under one of ``others`` is what rules know under ``symbol``."""
    for other in others:
        REGISTRY.aliases[other] = symbol


def answers_for(*roots: str, within: str = "") -> None:
    """Say that every symbol under ``roots`` must have a rule: one that has none is named and blocks its program.

    ``within`` is a package that is about something else: where a program hands it on, that is its own affair.
    """
    REGISTRY.roots.update(roots)
    REGISTRY.shared.update(filter(None, (within,)))
