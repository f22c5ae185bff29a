"""One pass over a tree: what every name means, and where each one is used.

The rules of Python's scopes are those of the language reference, section 4.2: a name bound anywhere in a block is
local to it, class bodies are not seen from the functions inside them, the first iterable of a comprehension belongs
to the enclosing scope.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import libcst as cst

ScopeKind = Literal["module", "class", "function", "comprehension"]
BindingKind = Literal["import", "assignment", "parameter", "definition", "other"]

_LINES = (cst.SimpleStatementLine, cst.SimpleStatementSuite, cst.BaseCompoundStatement)
_SKIPPED = frozenset({"lpar", "rpar", "comma", "semicolon", "operator", "dot", "indent", "newline", "encoding"})


@dataclass(eq=False)
class Scope:
    """A block in which names are bound."""

    kind: ScopeKind
    node: cst.CSTNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    declared: dict[str, Literal["global", "nonlocal"]] = field(default_factory=dict)

    def ancestors(self) -> Iterator[Scope]:
        """This scope, then the scopes around it, outermost last."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    @property
    def module(self) -> Scope:
        """The scope of the whole module."""
        return list(self.ancestors())[-1]

    def home(self, name: str) -> Scope | None:
        """The scope in which ``name``, used here, is bound; None for built-in and unknown names."""
        if self.declared.get(name) == "global":
            return self.module if name in self.module.bindings else None
        for scope in self.ancestors():
            visible = scope is self or scope.kind != "class"
            if visible and name in scope.bindings and scope.declared.get(name) is None:
                return scope
        return None

    def lookup(self, name: str) -> Sequence[Binding]:
        """Everything that ``name`` may be bound to where it is used in this scope."""
        home = self.home(name)
        return home.bindings[name] if home else ()

    def target(self, name: str) -> Scope:
        """The scope that an assignment to ``name`` in this scope binds it in."""
        declared = self.declared.get(name)
        if declared == "global":
            return self.module
        if declared == "nonlocal":
            return next((s for s in self.ancestors() if s.kind == "function" and s is not self), self)
        return self


@dataclass(frozen=True, eq=False)
class Binding:
    """One place that gives ``name`` a meaning; ``symbol`` is the dotted name that an import binds it to."""

    name: str
    scope: Scope
    kind: BindingKind
    node: cst.CSTNode
    value: cst.BaseExpression | None = None
    symbol: str | None = None


@dataclass(frozen=True, eq=False)
class Reference:
    """A place where a name is read."""

    node: cst.Name
    scope: Scope


@dataclass(eq=False)
class Index:
    """What one pass over a module found."""

    tree: cst.Module
    scope: Scope
    parents: dict[int, cst.CSTNode] = field(default_factory=dict)
    order: dict[int, int] = field(default_factory=dict)
    lines: dict[int, cst.CSTNode] = field(default_factory=dict)
    quotes: dict[int, str] = field(default_factory=dict)
    scopes: dict[int, Scope] = field(default_factory=dict)
    scopes_around: dict[int, Scope] = field(default_factory=dict)
    references: dict[str, list[Reference]] = field(default_factory=lambda: defaultdict(list))
    attributes: dict[str, list[cst.Attribute]] = field(default_factory=lambda: defaultdict(list))
    strings: list[cst.SimpleString] = field(default_factory=list)
    formatted: list[cst.FormattedString] = field(default_factory=list)
    stars: list[tuple[cst.ImportFrom, str]] = field(default_factory=list)
    functions: list[cst.FunctionDef] = field(default_factory=list)
    declarations: dict[str, list[cst.NameItem]] = field(default_factory=lambda: defaultdict(list))
    names: set[str] = field(default_factory=set)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node that holds ``node``; None for the module."""
        return self.parents.get(id(node))

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around ``node``, innermost first, without itself."""
        holder = self.parent(node)
        while holder is not None:
            yield holder
            holder = self.parent(holder)

    def scope_of(self, node: cst.CSTNode) -> Scope:
        """The scope that ``node`` stands in; of a function, lambda, class or comprehension, the scope that it opens."""
        return self.scopes.get(id(node)) or self.scopes_around.get(id(node), self.scope)

    def line(self, node: cst.CSTNode) -> cst.CSTNode:
        """The line of simple statements, one-line suite or compound statement that holds ``node``, or is it."""
        return self.lines[id(node)]

    def quote(self, node: cst.CSTNode) -> str:
        """The quotes of the f-string that ``node`` stands in; empty for one outside."""
        return self.quotes.get(id(node), "")

    def before(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether ``first`` begins before ``second`` in the text."""
        return self.order[id(first)] < self.order[id(second)]


@cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    names = (item.name for item in dataclasses.fields(kind))
    return tuple(n for n in names if n not in _SKIPPED and "whitespace" not in n and "lines" not in n)


def children_of(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The parts of ``node`` that mean something, in the order of its fields: no white space, no punctuation."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (item for item in value if isinstance(item, cst.CSTNode))


def dotted_name(node: cst.BaseExpression | cst.MaybeSentinel | None) -> str:
    """``a.b.c`` of a chain of attributes; empty for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and (head := dotted_name(node.value)):
        return f"{head}.{node.attr.value}"
    return ""


def source_of(symbol: str) -> tuple[str, str]:
    """The module that an import takes ``symbol`` from, leading dots included, and the name that it has there."""
    name = symbol.rpartition(".")[2]
    module = symbol[: len(symbol) - len(name)]
    return (module[:-1] if module.strip(".") else module), name


class _Pass:
    """The descent; its only result is the index that it fills."""

    def __init__(self, tree: cst.Module) -> None:
        self.scope = Scope("module", tree, None)
        self.index = Index(tree, self.scope)
        self.index.order[id(tree)] = 0
        self.line: cst.CSTNode = tree
        self.quote = ""
        self.handlers: dict[type[cst.CSTNode], Callable[..., None]] = {
            cst.Name: self.name,
            cst.Attribute: self.attribute,
            cst.SimpleString: self.string,
            cst.Arg: self.argument,
            cst.Assign: self.assign,
            cst.AnnAssign: self.annotated_assign,
            cst.AugAssign: self.augmented_assign,
            cst.NamedExpr: self.named_expression,
            cst.AsName: self.as_name,
            cst.For: self.loop,
            cst.CompFor: self.comprehension_loop,
            cst.Import: self.import_,
            cst.ImportFrom: self.import_from,
            cst.Global: self.global_,
            cst.Nonlocal: self.nonlocal_,
            cst.FunctionDef: self.function,
            cst.Lambda: self.lambda_,
            cst.ClassDef: self.class_,
            cst.ListComp: self.comprehension,
            cst.SetComp: self.comprehension,
            cst.GeneratorExp: self.comprehension,
            cst.DictComp: self.comprehension,
            cst.MatchAs: self.match_name,
            cst.MatchStar: self.match_name,
            cst.MatchMapping: self.match_rest,
            cst.Del: self.delete,
        }

    def enter(self, node: cst.CSTNode, parent: cst.CSTNode) -> None:
        outer_line, outer_quote = self.line, self.quote
        if isinstance(node, _LINES):
            self.line = node
        self.note(node, parent)
        if isinstance(node, cst.FormattedString):
            self.quote = node.quote
            self.index.formatted.append(node)
        handler = self.handlers.get(type(node))
        if handler is None:
            self.children(node)
        else:
            handler(node)
        self.line, self.quote = outer_line, outer_quote

    def note(self, node: cst.CSTNode, parent: cst.CSTNode) -> None:
        index, key = self.index, id(node)
        index.parents[key] = parent
        index.order[key] = len(index.order)
        index.lines[key] = self.line
        index.scopes_around[key] = self.scope
        if self.quote:
            index.quotes[key] = self.quote

    def children(self, node: cst.CSTNode, *, without: tuple[str, ...] = ()) -> None:
        skipped = {id(getattr(node, name)) for name in without}
        for child in children_of(node):
            if id(child) not in skipped:
                self.enter(child, node)

    def within(self, kind: ScopeKind, node: cst.CSTNode, visit: Callable[[], None]) -> None:
        outer, self.scope = self.scope, Scope(kind, node, self.scope)
        self.index.scopes[id(node)] = self.scope
        visit()
        self.scope = outer

    def bind(
        self,
        name: str,
        kind: BindingKind,
        node: cst.CSTNode,
        value: cst.BaseExpression | None = None,
        symbol: str | None = None,
    ) -> None:
        scope = self.scope
        while scope.kind == "comprehension" and scope.parent is not None and kind == "assignment":
            scope = scope.parent
        home = scope.target(name)
        home.bindings[name].append(Binding(name, home, kind, node, value, symbol))
        self.index.names.add(name)

    def bind_target(
        self, target: cst.CSTNode, parent: cst.CSTNode, value: cst.BaseExpression | None, kind: BindingKind
    ) -> None:
        if isinstance(target, cst.Name):
            self.note(target, parent)
            self.bind(target.value, kind, target, value)
        elif isinstance(target, (cst.Tuple, cst.List)):
            self.note(target, parent)
            parts = value.elements if isinstance(value, (cst.Tuple, cst.List)) else ()
            paired = len(parts) == len(target.elements)
            for position, element in enumerate(target.elements):
                self.note(element, target)
                part = parts[position].value if paired else None
                self.bind_target(element.value, element, part, kind if paired else "other")
        else:
            self.enter(target, parent)

    def name(self, node: cst.Name) -> None:
        self.index.references[node.value].append(Reference(node, self.scope))
        self.index.names.add(node.value)

    def attribute(self, node: cst.Attribute) -> None:
        self.index.attributes[node.attr.value].append(node)
        self.enter(node.value, node)

    def string(self, node: cst.SimpleString) -> None:
        self.index.strings.append(node)

    def argument(self, node: cst.Arg) -> None:
        if node.keyword is not None:
            self.note(node.keyword, node)
        self.enter(node.value, node)

    def assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self.note(target, node)
            self.bind_target(target.target, target, node.value, "assignment")
        self.enter(node.value, node)

    def annotated_assign(self, node: cst.AnnAssign) -> None:
        self.bind_target(node.target, node, node.value, "assignment")
        self.children(node, without=("target",))

    def augmented_assign(self, node: cst.AugAssign) -> None:
        if isinstance(node.target, cst.Name):
            self.enter(node.target, node)
            self.bind(node.target.value, "other", node.target)
            self.enter(node.value, node)
        else:
            self.children(node)

    def named_expression(self, node: cst.NamedExpr) -> None:
        self.bind_target(node.target, node, node.value, "assignment")
        self.enter(node.value, node)

    def as_name(self, node: cst.AsName) -> None:
        self.bind_target(node.name, node, None, "other")

    def loop(self, node: cst.For) -> None:
        self.bind_target(node.target, node, None, "other")
        self.children(node, without=("target",))

    def comprehension_loop(self, node: cst.CompFor) -> None:
        for condition in node.ifs:
            self.enter(condition, node)
        if node.inner_for_in is not None:
            self.note(node.inner_for_in, node)
            self.bind_target(node.inner_for_in.target, node.inner_for_in, None, "other")
            self.enter(node.inner_for_in.iter, node.inner_for_in)
            self.comprehension_loop(node.inner_for_in)

    def comprehension(self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp) -> None:
        self.note(node.for_in, node)
        self.enter(node.for_in.iter, node.for_in)

        def inside() -> None:
            self.bind_target(node.for_in.target, node.for_in, None, "other")
            self.comprehension_loop(node.for_in)
            self.children(node, without=("for_in",))

        self.within("comprehension", node, inside)

    def import_(self, node: cst.Import) -> None:
        for alias in node.names:
            self.note(alias, node)
            self.note(alias.name, alias)
            symbol = dotted_name(alias.name)
            if alias.asname is not None:
                self.bind(dotted_name(alias.asname.name), "import", alias, symbol=symbol)
            else:
                root = symbol.partition(".")[0]
                self.bind(root, "import", alias, symbol=root)

    def import_from(self, node: cst.ImportFrom) -> None:
        module = "." * len(node.relative) + dotted_name(node.module)
        if isinstance(node.names, cst.ImportStar):
            self.index.stars.append((node, module))
            return
        joint = "" if module.endswith(".") else "."
        for alias in node.names:
            self.note(alias, node)
            self.note(alias.name, alias)
            name = dotted_name(alias.name)
            local = dotted_name(alias.asname.name) if alias.asname is not None else name
            self.bind(local, "import", alias, symbol=f"{module}{joint}{name}")

    def global_(self, node: cst.Global) -> None:
        self.declare(node, "global")

    def nonlocal_(self, node: cst.Nonlocal) -> None:
        self.declare(node, "nonlocal")

    def declare(self, node: cst.Global | cst.Nonlocal, kind: Literal["global", "nonlocal"]) -> None:
        for item in node.names:
            self.note(item, node)
            self.note(item.name, item)
            self.scope.declared[item.name.value] = kind
            self.index.declarations[item.name.value].append(item)

    def function(self, node: cst.FunctionDef) -> None:
        self.bind(node.name.value, "definition", node)
        self.index.functions.append(node)
        for decorator in node.decorators:
            self.enter(decorator, node)
        if node.returns is not None:
            self.enter(node.returns, node)
        self.signature(node.params, node)

        def inside() -> None:
            self.parameters(node.params)
            self.enter(node.body, node)

        self.within("function", node, inside)

    def lambda_(self, node: cst.Lambda) -> None:
        self.signature(node.params, node)

        def inside() -> None:
            self.parameters(node.params)
            self.enter(node.body, node)

        self.within("function", node, inside)

    def signature(self, parameters: cst.Parameters, owner: cst.CSTNode) -> None:
        self.note(parameters, owner)
        for parameter in all_parameters(parameters):
            self.note(parameter, parameters)
            self.note(parameter.name, parameter)
            for part in (parameter.annotation, parameter.default):
                if part is not None:
                    self.enter(part, parameter)

    def parameters(self, parameters: cst.Parameters) -> None:
        for parameter in all_parameters(parameters):
            self.bind(parameter.name.value, "parameter", parameter)

    def class_(self, node: cst.ClassDef) -> None:
        self.bind(node.name.value, "definition", node)
        for part in (*node.decorators, *node.bases, *node.keywords):
            self.enter(part, node)
        self.within("class", node, lambda: self.enter(node.body, node))

    def match_name(self, node: cst.MatchAs | cst.MatchStar) -> None:
        if node.name is not None:
            self.bind_target(node.name, node, None, "other")
        self.children(node, without=("name",))

    def match_rest(self, node: cst.MatchMapping) -> None:
        if node.rest is not None:
            self.bind_target(node.rest, node, None, "other")
        self.children(node, without=("rest",))

    def delete(self, node: cst.Del) -> None:
        self.children(node)


def all_parameters(parameters: cst.Parameters) -> list[cst.Param]:
    """Every parameter of a signature, starred ones included, in the order of the text."""
    stars = [p for p in (parameters.star_arg, parameters.star_kwarg) if isinstance(p, cst.Param)]
    return [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params, *stars]


def index(tree: cst.Module) -> Index:
    """Find the scopes, bindings and references of ``tree`` in one descent."""
    descent = _Pass(tree)
    for statement in tree.body:
        descent.enter(statement, tree)
    return descent.index
