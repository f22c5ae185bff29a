"""What stands for an imported module: the variables, parameters and attributes through which a program hands it on.

``helper(hvd)``, ``self.hvd = hvd`` and ``hvd = None`` after a failed import are followed as long as everything that a
carrier may be given is the same module, or nothing. A carrier that is only used for what the module holds is not needed
after the migration. One that is also asked whether there is a module (``if hvd is not None``) tells what the user has
chosen: it becomes a flag. Where the only choice was whether the import succeeds, the question has an answer of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

import libcst as cst

from migrator.api import Finding, Module
from migrator.bindings import Binding, Scope, dotted_name, source_of
from migrator.calls import Definition, Functions, definition_of
from migrator.edits import Drop, Edit, Remove, Replace, Template

FLAG_NAMES = ("is_distributed", "uses_process_group", "is_distributed_run")


class Symbols(Protocol):
    """What is known of symbols and files."""

    def find(self, module: Module, name: str, /) -> Module | None:
        """The module of the program that ``name`` means when ``module`` imports it."""

    def is_module(self, symbol: str) -> bool:
        """Whether ``symbol`` holds others that rules answer for."""

    def is_followed(self, symbol: str) -> bool:
        """Whether what becomes of ``symbol`` matters."""

    def is_relevant(self, symbol: str) -> bool:
        """Whether ``symbol`` is one that rules answer for, lies under one, or leads to one."""

    def canonical(self, symbol: str) -> str:
        """The name under which rules know ``symbol``."""


@dataclass(frozen=True)
class Carrier:
    """A variable of one scope, or the attributes of one name of all objects."""

    kind: Literal["name", "attribute"]
    name: str
    scope: int = 0


@dataclass(frozen=True, eq=False)
class Flow:
    """A place at which the module, or nothing, goes into ``target``: ``value`` is None where the module is imported."""

    target: Carrier
    module: Module
    place: cst.CSTNode
    value: cst.BaseExpression | None


@dataclass(frozen=True, eq=False)
class Question:
    """A test of whether there is a module; ``asks_absence`` in ``hvd is None``."""

    carrier: Carrier
    module: Module
    node: cst.BaseExpression
    asks_absence: bool

    @property
    def subject(self) -> cst.BaseExpression:
        """The expression that stands for the module."""
        return self.node.left if isinstance(self.node, cst.Comparison) else self.node


@dataclass(frozen=True, eq=False)
class Carried:
    """What was followed.

    ``symbols`` are the carriers with the module that they stand for; ``flows`` the expressions, by identity, that hand
    it on, or ask for it, in a way that is understood; ``refused`` are those that are not, with the reason;
    ``questions`` those that have an answer of their own after the migration; ``findings`` are the edits for what the
    others become, by the identity of their module; ``flags`` the carriers that stay as flags.
    """

    symbols: Mapping[Carrier, str] = field(default_factory=dict)
    flows: frozenset[int] = frozenset()
    refused: Mapping[int, str] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    findings: Mapping[int, tuple[Finding, ...]] = field(default_factory=dict)
    flags: frozenset[Carrier] = frozenset()
    functions: Functions = field(default_factory=Functions)

    def symbol(self, scope: Scope, name: str) -> str | None:
        """The module that ``name`` of ``scope`` stands for."""
        return self.symbols.get(Carrier("name", name, id(scope)))

    def is_flag(self, binding: Binding) -> bool:
        """Whether ``binding`` stays, as that of a flag."""
        return Carrier("name", binding.name, id(binding.scope)) in self.flags


def follow(modules: Sequence[Module], symbols: Symbols) -> Carried:
    """Follow every import of a module that rules answer for through the program."""
    search = _Search(modules, symbols)
    search.run()
    return search.result()


class _Search:
    def __init__(self, modules: Sequence[Module], symbols: Symbols) -> None:
        self.modules = modules
        self.known = symbols
        self.symbols: dict[Carrier, str] = {}
        self.scopes: dict[int, tuple[Scope, Module]] = {}
        self.flows: dict[Carrier, list[Flow]] = defaultdict(list)
        self.sources: dict[Carrier, set[Carrier]] = defaultdict(set)
        self.handed: dict[int, tuple[Carrier, ...]] = {}
        self.carrier_at: dict[int, Carrier] = {}
        self.questions: list[Question] = []
        self.reasons: dict[Carrier, str] = {}
        self.refused: dict[int, str] = {}
        self.imports: set[Binding] = set()
        self.waiting: list[Carrier] = []
        self.functions = modules[0].functions if modules else Functions()

    @cached_property
    def assigned(self) -> Mapping[int, Binding]:
        """Bindings by the identity of the expression that they are given."""
        scopes = [s for m in self.modules for s in (m.index.scope, *m.index.scopes.values())]
        bindings = (b for scope in scopes for found in scope.bindings.values() for b in found)
        return {id(b.value): b for b in bindings if b.value is not None and b.kind == "assignment"}

    @cached_property
    def taken(self) -> Mapping[tuple[int, str], Sequence[tuple[Module, Binding]]]:
        """Imports from other files of the program, by the file and the name in it."""
        found: dict[tuple[int, str], list[tuple[Module, Binding]]] = defaultdict(list)
        for module in self.modules:
            for scope in (module.index.scope, *module.index.scopes.values()):
                for binding in (b for bs in scope.bindings.values() for b in bs if b.symbol):
                    head, name = source_of(str(binding.symbol))
                    exporter = self.known.find(module, head) if head else None
                    if exporter is not None and exporter is not module:
                        found[id(exporter), name].append((module, binding))
        return found

    def run(self) -> None:
        for module in self.modules:
            for scope in (module.index.scope, *module.index.scopes.values()):
                for bindings in list(scope.bindings.values()):
                    for binding in bindings:
                        symbol = binding.symbol or ""
                        if (
                            self.known.is_module(symbol)
                            and self.known.is_relevant(symbol)
                            and self.known.is_followed(symbol)
                        ):
                            self.imports.add(binding)
                            self.reach(self.variable(binding, module), symbol)
        while self.waiting:
            carrier = self.waiting.pop()
            for module, node in self.uses(carrier):
                self.look(carrier, module, node, self.symbols[carrier])
            for module, binding in self.exported(carrier):
                target = self.variable(binding, module)
                self.imports.add(binding)
                self.sources[target].add(carrier)
                self.reach(target, self.symbols[carrier])

    def variable(self, binding: Binding, module: Module) -> Carrier:
        self.scopes[id(binding.scope)] = binding.scope, module
        return Carrier("name", binding.name, id(binding.scope))

    def reach(self, carrier: Carrier, symbol: str) -> None:
        if self.known.canonical(self.symbols.get(carrier, symbol)) != self.known.canonical(symbol):
            self.reasons[carrier] = "it stands for different modules"
        elif carrier not in self.symbols:
            self.symbols[carrier] = symbol
            self.waiting.append(carrier)

    def exported(self, carrier: Carrier) -> Sequence[tuple[Module, Binding]]:
        scope, module = self.scopes.get(carrier.scope, (None, None))
        if scope is None or module is None or scope.kind != "module":
            return ()
        return self.taken.get((id(module), carrier.name), ())

    def uses(self, carrier: Carrier) -> Iterator[tuple[Module, cst.BaseExpression]]:
        """The places where ``carrier`` is read."""
        if carrier.kind == "attribute":
            for module in self.modules:
                for node in module.index.attributes[carrier.name]:
                    if not _is_stored(node, module) and not self.is_of_module(node, module):
                        yield module, node
            return
        scope, module = self.scopes[carrier.scope]
        for reference in module.index.references[carrier.name]:
            if reference.scope.home(carrier.name) is scope:
                yield module, reference.node

    def is_of_module(self, node: cst.Attribute, module: Module) -> bool:
        """Whether ``node`` is a name of an imported module, not an attribute of an object."""
        root = dotted_name(node).partition(".")[0]
        bindings = module.index.scope_of(node).lookup(root) if root else ()
        return any(binding.kind == "import" for binding in bindings)

    def look(self, carrier: Carrier, module: Module, node: cst.BaseExpression, symbol: str) -> None:
        """See what becomes of the module at one use."""
        holder = module.index.parent(node)
        while isinstance(holder, cst.Attribute) and holder.value is node:
            symbol = f"{symbol}.{holder.attr.value}"
            if not self.known.is_module(symbol):
                return
            node, holder = holder, module.index.parent(holder)
        self.carrier_at[id(node)] = carrier
        if question := _question(carrier, module, node):
            self.questions.append(question)
            return
        value = _whole(node, module)
        targets = tuple(self.targets(value, module))
        for target in targets:
            self.sources[target].add(carrier)
            self.reach(target, symbol)
        if targets:
            self.handed[id(node)] = targets

    def targets(self, value: cst.BaseExpression, module: Module) -> Iterator[Carrier]:
        """What ``value`` is given to; nothing where that cannot be followed."""
        holder = module.index.parent(value)
        if isinstance(holder, (cst.Assign, cst.AnnAssign)):
            targets = [t.target for t in holder.targets] if isinstance(holder, cst.Assign) else [holder.target]
            if len(targets) == 1 and isinstance(targets[0], cst.Attribute):
                yield Carrier("attribute", targets[0].attr.value)
            elif len(targets) == 1 and (binding := self.assigned.get(id(value))) and binding.scope.kind != "class":
                yield self.variable(binding, module)
        elif isinstance(holder, cst.Arg) and not holder.star:
            call = module.index.parent(holder)
            if isinstance(call, cst.Call):
                yield from self.parameters(call, holder, module)
        elif isinstance(holder, cst.Param) and holder.default is value:
            function = module.index.parent(module.index.parent(holder) or holder)
            if isinstance(function, cst.FunctionDef):
                yield from self.parameter(definition_of(function, module), holder.name.value)

    def parameters(self, call: cst.Call, argument: cst.Arg, module: Module) -> Iterator[Carrier]:
        for definition in self.functions.reached(call, module):
            name = definition.receives(call, argument)
            if name is not None:
                yield from self.parameter(definition, name)

    def parameter(self, definition: Definition, name: str) -> Iterator[Carrier]:
        if definition.parameter(name) is not None:
            self.scopes[id(definition.scope)] = definition.scope, definition.module
            yield Carrier("name", name, id(definition.scope))

    def result(self) -> Carried:
        """Check what was reached, then decide what becomes of it."""
        for carrier in self.symbols:
            self.flows[carrier] = list(self.given(carrier))
        while self.drop_unclear():
            pass
        for node, targets in self.handed.items():
            for target in targets:
                if target in self.reasons:
                    self.refused[node] = f"{_described(target)} cannot be followed: {self.reasons[target]}"
        clear = {c: s for c, s in self.symbols.items() if c not in self.reasons}
        asked = {q.carrier for q in self.questions if q.carrier in clear}
        flags = frozenset(self.flags(clear, asked))
        outcome = _Outcome(self, clear, flags)
        return Carried(
            symbols=clear,
            flows=frozenset((*self.handed, *(id(q.subject) for q in self.questions))) - self.refused.keys(),
            refused=self.refused,
            questions=tuple(q for q in self.questions if q.carrier in clear and q.carrier not in flags),
            findings={id(module): tuple(outcome.findings(module)) for module in self.modules},
            flags=flags,
            functions=self.functions,
        )

    def given(self, carrier: Carrier) -> Iterator[Flow]:
        """Everything that ``carrier`` may be given; notes the reason where something else than the module may be."""
        if carrier.kind == "attribute":
            yield from self.stored(carrier)
            return
        scope, module = self.scopes[carrier.scope]
        for binding in scope.bindings[carrier.name]:
            if binding.kind == "parameter":
                yield from self.passed(carrier, binding, module)
            elif binding in self.imports:
                yield Flow(carrier, module, binding.node, None)
            elif binding.kind == "assignment" and binding.value is not None and _is_plain(binding, module):
                yield Flow(carrier, module, binding.node, binding.value)
            elif not (isinstance(module.index.parent(binding.node), cst.AnnAssign) and binding.value is None):
                self.reasons[carrier] = "it is also bound to something else"

    def stored(self, carrier: Carrier) -> Iterator[Flow]:
        for module in self.modules:
            if any(node.raw_value == carrier.name and _names_attribute(node, module) for node in module.index.strings):
                self.reasons[carrier] = "a string names it"
            for node in module.index.attributes[carrier.name]:
                holder = module.index.parent(node)
                statement = module.index.parent(holder) if isinstance(holder, cst.AssignTarget) else holder
                if isinstance(holder, cst.AssignTarget) and isinstance(statement, cst.Assign):
                    if len(statement.targets) > 1:
                        self.reasons[carrier] = "it is assigned together with others"
                    yield Flow(carrier, module, node, statement.value)
                elif isinstance(holder, cst.AnnAssign) and holder.target is node and holder.value is not None:
                    yield Flow(carrier, module, node, holder.value)
                elif _is_stored(node, module):
                    self.reasons[carrier] = "it is changed in place"
            for scope in module.index.scopes.values():
                if scope.kind == "class":
                    for binding in scope.bindings.get(carrier.name, ()):
                        if binding.value is None or not _is_plain(binding, module):
                            self.reasons[carrier] = "a class defines it otherwise"
                        else:
                            yield Flow(carrier, module, binding.node, binding.value)

    def passed(self, carrier: Carrier, binding: Binding, module: Module) -> Iterator[Flow]:
        """What the callers of a function give to one of its parameters, and its default."""
        function = binding.scope.node
        if not isinstance(function, cst.FunctionDef):
            self.reasons[carrier] = "it is the parameter of a lambda"
            return
        found, reason = self.functions.given(definition_of(function, module), binding.name)
        if reason:
            self.reasons[carrier] = reason
        yield from (Flow(carrier, given.module, given.place, given.value) for given in found)

    def drop_unclear(self) -> bool:
        """Give up carriers that may be given anything but the module and nothing; whether there were any."""
        unclear = {c: reason for c in self.symbols if c not in self.reasons and (reason := self.unclear(c))}
        self.reasons |= unclear
        return bool(unclear)

    def unclear(self, carrier: Carrier) -> str:
        for source in self.sources[carrier]:
            if source in self.reasons:
                return self.reasons[source]
        for flow in self.flows[carrier]:
            if flow.value is not None and not self.is_module_or_none(flow.value, flow.module):
                return "it may be given something else than the module"
        return ""

    def is_module_or_none(self, node: cst.BaseExpression, module: Module) -> bool:
        if isinstance(node, cst.IfExp):
            return all(self.is_module_or_none(part, module) for part in (node.body, node.orelse))
        carrier = self.carrier_at.get(id(node))
        return is_none(node) or (carrier is not None and carrier not in self.reasons)

    def flags(self, clear: Mapping[Carrier, str], asked: set[Carrier]) -> Iterator[Carrier]:
        """The carriers that tell a choice of the user, and are asked for it, here or where they are handed on to."""
        wanted = set(asked)
        while more := {s for c in wanted for s in self.sources[c] if s in clear} - wanted:
            wanted |= more
        chosen = {carrier for carrier in clear if self.is_chosen(carrier)}
        while more := {c for c in clear if self.sources[c] & chosen} - chosen:
            chosen |= more
        return (carrier for carrier in clear if carrier in wanted and carrier in chosen)

    def is_chosen(self, carrier: Carrier) -> bool:
        """Whether something else than a failed import may leave ``carrier`` without the module."""
        return any(
            flow.value is not None and _may_be_none(flow.value) and not _is_import_guard(flow)
            for flow in self.flows[carrier]
        )


class _Outcome:
    """What becomes of the carriers, as findings with edits."""

    def __init__(self, search: _Search, clear: Mapping[Carrier, str], flags: frozenset[Carrier]) -> None:
        self.search = search
        self.clear = clear
        self.flags = flags
        self.taken = {name for module in search.modules for name in (*module.index.names, *module.index.attributes)}
        self.flag_names = self.named([c.name for c in clear if c in flags and c.kind == "name"])
        self.flag_attributes = self.named([c.name for c in clear if c in flags and c.kind == "attribute"])

    def named(self, names: Sequence[str]) -> Mapping[str, str]:
        """What flags are called that take the place of ``names``: the one that most carriers have comes first."""
        first = next((name for name in FLAG_NAMES if name not in self.taken), "is_distributed_")
        ranked = sorted(dict.fromkeys(names), key=names.count, reverse=True)
        others = {name: f"uses_{name}" if f"uses_{name}" not in self.taken else f"uses_{name}_" for name in ranked[1:]}
        return {**dict.fromkeys(ranked[:1], first), **others}

    def flag(self, carrier: Carrier) -> str:
        """What the flag is called that takes the place of ``carrier``."""
        return (self.flag_names if carrier.kind == "name" else self.flag_attributes)[carrier.name]

    def findings(self, module: Module) -> Iterator[Finding]:
        for carrier in self.clear:
            for flow in self.search.flows[carrier]:
                if flow.module is module:
                    yield from self.at_flow(flow)
            yield from self.at_parameter(carrier, module)
            yield from self.at_declaration(carrier, module)
        for question in self.search.questions:
            if question.module is module and question.carrier in self.flags:
                yield self.answered(question)

    def at_flow(self, flow: Flow) -> Iterator[Finding]:
        """What becomes of a place where the module goes into a carrier."""
        if flow.target in self.flags:
            yield from self.as_flag(flow)
        elif isinstance(flow.place, cst.Arg):
            yield Finding(flow.place, "exact", "the argument goes: it was the module", (Drop(flow.place),))
        elif isinstance(flow.place, cst.Attribute) or self.is_in_class(flow):
            statement = _statement(flow.place, flow.module)
            message = f"{flow.target.name!r} goes: it was the module"
            if any(self.search.uses(flow.target)):
                yield Finding(flow.place, "exact", message, (Remove(statement),))
            else:
                yield Finding(flow.place, "review", f"{message}, and nothing in sight reads it", (Remove(statement),))

    def is_in_class(self, flow: Flow) -> bool:
        return flow.target.kind == "attribute" and isinstance(flow.place, cst.Name)

    def as_flag(self, flow: Flow) -> Iterator[Finding]:
        flag = self.flag(flow.target)
        if flow.value is None:
            statement = _statement(flow.place, flow.module)
            message = f"{flow.target.name!r} told whether there is the module: {flag!r} does"
            yield Finding(flow.place, "review", message, (Replace(statement, Template(f"{flag} = True")),))
            return
        edits: list[Edit] = [Replace(flow.value, self.value(flow.value))]
        place = flow.place
        if isinstance(place, cst.Name):
            edits.append(Replace(place, Template(flag)))
        elif isinstance(place, cst.Attribute):
            edits.append(Replace(place, Template(f"{{owner}}.{flag}", {"owner": place.value})))
        elif isinstance(place, cst.Arg) and place.keyword is not None:
            edits.append(Replace(place.keyword, Template(flag)))
        edits += _typed(place if isinstance(place, cst.Param) else flow.module.index.parent(place))
        yield Finding(place, "exact", f"{flow.target.name!r} → {flag!r}", tuple(edits))

    def value(self, node: cst.BaseExpression) -> Template:
        """A flag in the place of the module or nothing."""
        if isinstance(node, cst.IfExp):
            if is_none(node.orelse):
                return Template("{test}", {"test": node.test})
            if is_none(node.body):
                return _negated(node.test)
        if is_none(node):
            return Template("False")
        carrier = self.search.carrier_at.get(id(node))
        if carrier is None or carrier not in self.flags:
            return Template("True")
        if isinstance(node, cst.Attribute):
            return Template(f"{{owner}}.{self.flag(carrier)}", {"owner": node.value})
        return Template(self.flag(carrier))

    def answered(self, question: Question) -> Finding:
        new = self.value(question.subject)
        if question.asks_absence:
            new = Template(f"not {new.text}", new.parts)
        message = (
            f"{question.carrier.name!r} → {self.flag(question.carrier)!r}, which is true where the module was there"
        )
        return Finding(question.node, "exact", message, (Replace(question.node, new),))

    def at_parameter(self, carrier: Carrier, module: Module) -> Iterator[Finding]:
        """The parameter of a function that was given the module."""
        scope, home = self.search.scopes.get(carrier.scope, (None, None))
        if scope is None or home is not module:
            return
        for binding in scope.bindings[carrier.name]:
            if not isinstance(binding.node, cst.Param):
                continue
            if carrier in self.flags:
                flag = self.flag(carrier)
                typed = _typed(binding.node) if binding.node.default is None else ()
                edits: tuple[Edit, ...] = (Replace(binding.node.name, Template(flag)), *typed)
                message = f"the parameter {carrier.name!r} → {flag!r}: callers that are not in sight give it a bool"
            else:
                edits = (Drop(binding.node),)
                message = (
                    f"the parameter {carrier.name!r} goes: callers that are not in sight must not give it any more"
                )
            yield Finding(binding.node, "review", message, edits)

    def at_declaration(self, carrier: Carrier, module: Module) -> Iterator[Finding]:
        """``global hvd`` for a module variable."""
        scope, home = self.search.scopes.get(carrier.scope, (None, None))
        if scope is None or home is not module:
            return
        for node in module.index.declarations[carrier.name]:
            if module.index.scope_of(node).target(carrier.name) is scope:
                edit = (
                    Replace(node.name, Template(self.flag(carrier)))
                    if carrier in self.flags
                    else _without(node, module)
                )
                yield Finding(node, "exact", f"the declaration of {carrier.name!r} follows it", (edit,))


def _whole(node: cst.BaseExpression, module: Module) -> cst.BaseExpression:
    """``hvd if wanted else None`` of the module in it."""
    holder = module.index.parent(node)
    while isinstance(holder, cst.IfExp) and holder.test is not node:
        node, holder = holder, module.index.parent(holder)
    return node


def is_asked(node: cst.BaseExpression, module: Module) -> bool:
    """Whether it is only asked whether ``node`` is there."""
    return _question(Carrier("name", ""), module, node) is not None


def _question(carrier: Carrier, module: Module, node: cst.BaseExpression) -> Question | None:
    """The test that ``node`` is the subject of, if it is one."""
    holder = module.index.parent(node)
    if isinstance(holder, cst.Comparison) and holder.left is node and len(holder.comparisons) == 1:
        target = holder.comparisons[0]
        if is_none(target.comparator) and isinstance(target.operator, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual)):
            return Question(carrier, module, holder, isinstance(target.operator, (cst.Is, cst.Equal)))
    if _is_tested(node, module):
        return Question(carrier, module, node, False)
    return None


def _is_tested(node: cst.BaseExpression, module: Module) -> bool:
    """Whether only the truth of ``node`` is asked for."""
    holder = module.index.parent(node)
    if isinstance(holder, (cst.If, cst.While, cst.IfExp, cst.Assert, cst.CompIf)):
        return holder.test is node
    if isinstance(holder, cst.UnaryOperation):
        return isinstance(holder.operator, cst.Not)
    if isinstance(holder, cst.BooleanOperation):
        is_test = holder.left is node and isinstance(holder.operator, cst.And)
        return is_test or _is_tested(holder, module)
    call = module.index.parent(holder) if isinstance(holder, cst.Arg) else None
    return isinstance(call, cst.Call) and dotted_name(call.func) == "bool"


def _negated(test: cst.BaseExpression) -> Template:
    """The opposite of ``test``."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return Template("{test}", {"test": test.expression})
    return Template("not {test}", {"test": test})


def is_none(node: cst.BaseExpression) -> bool:
    """Whether ``node`` says that there is nothing."""
    return isinstance(node, cst.Name) and node.value in ("None", "False")


def _may_be_none(node: cst.BaseExpression) -> bool:
    return is_none(node) or (isinstance(node, cst.IfExp) and any(map(_may_be_none, (node.body, node.orelse))))


def _is_import_guard(flow: Flow) -> bool:
    """Whether nothing is assigned because an import failed."""
    return any(isinstance(holder, cst.ExceptHandler) for holder in flow.module.index.ancestors(flow.place))


def _names_attribute(node: cst.SimpleString, module: Module) -> bool:
    """Whether ``node`` is the name in ``getattr(object, "name")`` or its like."""
    argument = module.index.parent(node)
    call = module.index.parent(argument) if isinstance(argument, cst.Arg) else None
    named = ("getattr", "hasattr", "setattr", "delattr", "attrgetter", "object")
    return isinstance(call, cst.Call) and dotted_name(call.func).rpartition(".")[2] in named


def _is_stored(node: cst.Attribute, module: Module) -> bool:
    holder = module.index.parent(node)
    if isinstance(holder, (cst.AnnAssign, cst.AugAssign)):
        return holder.target is node
    return isinstance(holder, (cst.AssignTarget, cst.Del))


def _is_plain(binding: Binding, module: Module) -> bool:
    """Whether ``binding`` is a statement ``name = value`` of its own."""
    holder = module.index.parent(binding.node)
    if isinstance(holder, cst.AssignTarget):
        statement = module.index.parent(holder)
        return isinstance(statement, cst.Assign) and len(statement.targets) == 1
    return isinstance(holder, cst.AnnAssign)


def _typed(holder: cst.CSTNode | None) -> Iterator[Edit]:
    """The annotation of a flag."""
    if isinstance(holder, (cst.Param, cst.AnnAssign)) and holder.annotation is not None:
        yield Replace(holder.annotation.annotation, Template("bool"))


def _statement(node: cst.CSTNode, module: Module) -> cst.BaseSmallStatement:
    return next(h for h in module.index.ancestors(node) if isinstance(h, cst.BaseSmallStatement))


def _without(name: cst.NameItem, module: Module) -> Edit:
    """The declaration without ``name``."""
    statement = _statement(name, module)
    alone = isinstance(statement, (cst.Global, cst.Nonlocal)) and len(statement.names) == 1
    return Remove(statement) if alone else Drop(name)


def _described(carrier: Carrier) -> str:
    return f"the attribute {carrier.name!r}" if carrier.kind == "attribute" else repr(carrier.name)
