"""Which symbol each place of a module uses, and which uses no rule can answer for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import libcst as cst

from migrator.api import Finding, Module, Site
from migrator.bindings import Binding, Reference, Scope, children_of, dotted_name, source_of
from migrator.carriers import Carried, Carrier, Question, follow, is_asked, is_none
from migrator.edits import Remove
from migrator.layout import Span
from migrator.notices import ESCAPES, IMPORT, OPTIONAL, STAR
from migrator.registry import Registry, Rule
from migrator.stars import BUILT_IN, bind_stars, unbound_names
from migrator.strings import in_annotations, in_type_comments, specifications, strings


@dataclass(frozen=True)
class Found:
    """What was found in one module.

    ``notices`` are what the engine itself has to say, with its ID: uses that stay, and what becomes of variables,
    parameters and attributes that carry the module; ``bindings`` those that may go, but for ``leads``: nodes of
    imports, such as ``import sparkdl``, that lead to more than rules answer for; ``type_comments`` are places in
    comments that name Horovod in a type, ``annotations`` those in quoted annotations; ``running`` are nodes of imports
    from modules that do something on import.
    """

    sites: tuple[Site, ...]
    notices: tuple[tuple[str, Finding], ...]
    bindings: tuple[Binding, ...]
    leads: frozenset[int] = frozenset()
    type_comments: tuple[tuple[Span, Site], ...] = ()
    running: frozenset[int] = frozenset()
    annotations: tuple[tuple[cst.SimpleString, tuple[tuple[Span, Site], ...]], ...] = ()


@dataclass(frozen=True, eq=False)
class Use:
    """An expression that names something of Horovod, and the scope it stands in."""

    node: cst.BaseExpression
    scope: Scope


class Finder(Protocol):
    """Finds the module of the program that ``name`` means when ``module`` imports it."""

    def __call__(self, module: Module, name: str) -> Module | None: ...


@dataclass(frozen=True)
class Resolver:
    """Follows names to the dotted name of what they were imported as, through the modules of the program."""

    registry: Registry
    find: Finder
    carried: Carried = field(default_factory=Carried)

    def following(self, modules: Sequence[Module]) -> Resolver:
        """This resolver, with what ``modules`` hand on from one to another; star imports get bindings."""
        bind_stars(modules, self)
        return replace(self, carried=follow(modules, self))

    def canonical(self, symbol: str) -> str:
        """The name under which rules know ``symbol``."""
        return self.registry.canonical(symbol)

    def is_relevant(self, symbol: str) -> bool:
        """Whether ``symbol`` is one that rules answer for, lies under one, or leads to one."""
        return any(_under(symbol, root) or _under(root, symbol) for root in self.registry.roots)

    def is_rooted(self, symbol: str) -> bool:
        """Whether ``symbol`` lies under what rules answer for."""
        return any(_under(symbol, root) for root in self.registry.roots)

    def is_followed(self, symbol: str) -> bool:
        """Whether what becomes of ``symbol`` matters: it is not a package that is about something else."""
        return self.is_rooted(symbol) or symbol.partition(".")[0] not in self.registry.shared

    def is_known(self, symbol: str) -> bool:
        """Whether a rule answers for ``symbol``, or for something that it holds."""
        return self.rule_for(symbol) is not None or self.is_module(symbol)

    def rule_for(self, symbol: str) -> Rule | None:
        """The rule of ``symbol``, under whichever of its names."""
        return self.registry.rule_for(self.registry.canonical(symbol))

    def symbol(self, binding: Binding, module: Module, depth: int = 0) -> str | None:
        """The dotted name that ``binding`` stands for; None for anything but an import or another name for one."""
        if depth > 8:
            return None
        if carried := self.carried.symbol(binding.scope, binding.name):
            return carried
        return self.imported(binding.symbol, module, depth) if binding.symbol is not None else None

    def imported(self, symbol: str, module: Module, depth: int) -> str | None:
        if self.is_relevant(symbol):
            return symbol
        head, name = source_of(symbol)
        exporter = self.file(head, module) if head else None
        if exporter is None or exporter is module or name not in exporter.index.scope.bindings:
            return None
        found = {self.symbol(b, exporter, depth + 1) for b in exporter.index.scope.bindings[name]}
        return found.pop() if len(found) == 1 else None

    def runs_code(self, symbol: str, module: Module) -> bool:
        """Whether ``symbol`` is imported from a module of the program that does something when it is imported."""
        holder = source_of(symbol)[0]
        exporter = self.find(module, holder) if holder and not self.is_relevant(symbol) else None
        return exporter is not None and self.runs(exporter, set())

    def runs(self, module: Module, seen: set[int]) -> bool:
        """Whether importing ``module`` does something, itself or in a file that it imports."""
        if id(module) in seen:
            return False
        seen.add(id(module))
        symbols = {b.symbol for found in module.index.scope.bindings.values() for b in found if b.symbol}
        names = {name for symbol in symbols for name in (symbol, symbol.rpartition(".")[0]) if name.strip(".")}
        files = (self.find(module, name) for name in sorted(names))
        return not all(map(_is_quiet, module.index.tree.body)) or any(f and self.runs(f, seen) for f in files)

    def file(self, name: str, module: Module, seen: frozenset[tuple[int, str]] = frozenset()) -> Module | None:
        """The file of the program that ``name`` means in ``module``, also where another file has imported it.

        ``seen`` are the names already looked up on the way: files may import a name from one another in a circle.
        """
        found = self.find(module, name)
        head, _, last = name.rpartition(".")
        if found is not None or not head.strip(".") or (id(module), name) in seen:
            return found
        seen |= {(id(module), name)}
        between = self.file(head, module, seen)
        bindings = between.index.scope.bindings.get(last, ()) if between is not None else ()
        symbols = {binding.symbol for binding in bindings}
        only = symbols.pop() if len(symbols) == 1 else None
        return self.file(only, between, seen) if only and between is not None else None

    def is_module(self, symbol: str) -> bool:
        """Whether ``symbol`` holds others that rules answer for."""
        canonical = self.registry.canonical(symbol)
        return canonical in self.holders and canonical not in self.registry.by_symbol

    @cached_property
    def holders(self) -> frozenset[str]:
        """Every symbol that is known, and every module in which one lies."""
        known = (*self.registry.by_symbol, *self.registry.aliases, *self.registry.roots)
        parts = (symbol.split(".") for symbol in known)
        return frozenset(".".join(names[:count]) for names in parts for count in range(1, len(names) + 1))


def find_sites(module: Module, resolver: Resolver) -> Found:
    """Resolve every reference of ``module``; what cannot be followed is refused with its reason."""
    search = _Search(module, resolver)
    search.run()
    module.symbols.update((id(site.node), site.symbol) for site in search.sites)
    bindings = search.bindings
    notices = [*search.notices, *((ESCAPES, f) for f in resolver.carried.findings.get(id(module), ()))]
    for binding in _hidden(module, bindings):
        notices.append((ESCAPES, _blocked(binding.node, f"{binding.name!r} is bound again in a class, from itself")))
        bindings = [other for other in bindings if other.name != binding.name]
    notices += _stars(module, resolver)
    notices += strings(module, [b for b in bindings if b.symbol is None or resolver.is_followed(b.symbol)])
    notices += _handed_in(module, resolver)
    named = {f.node.raw_value for _, f in notices if isinstance(f.node, cst.SimpleString) and f.class_ == "blocked"}
    bindings = [b for b in bindings if not any(b.name in re.findall(r"\w+", value) for value in named)]
    return Found(
        (*search.sites, *specifications(module)),
        tuple(notices),
        tuple(bindings),
        frozenset(search.leads),
        tuple(in_type_comments(module, bindings, resolver)),
        frozenset(id(b.node) for b in bindings if b.symbol is not None and resolver.runs_code(b.symbol, module)),
        tuple(in_annotations(module, bindings, resolver)),
    )


class _Search:
    """Goes through the names and attributes of one module."""

    def __init__(self, module: Module, resolver: Resolver) -> None:
        self.module = module
        self.resolver = resolver
        self.sites: list[Site] = []
        self.notices: list[tuple[str, Finding]] = []
        self.bindings: list[Binding] = []
        self.leads: set[int] = set()

    def run(self) -> None:
        for name, scope in _bound_names(self.module):
            self.name(name, scope)
        for carrier, symbol in self.resolver.carried.symbols.items():
            if carrier.kind == "attribute":
                self.attributes(carrier, symbol)
        for question in self.resolver.carried.questions:
            if question.module is self.module:
                self.question(question)

    def name(self, name: str, scope: Scope) -> None:
        here = scope.bindings[name]
        symbols = [self.resolver.symbol(binding, self.module) for binding in here]
        relevant = [b for b, s in zip(here, symbols, strict=True) if s and self.resolver.is_relevant(s)]
        if not relevant:
            self.through_modules(name, scope)
            self.notices += _by_string(name, scope, self.module, self.resolver)
            self.notices += _as_values(name, scope, self.module, self.resolver)
            return
        self.bindings += (b for b in relevant if self.may_go(b))
        rooted = self.resolver.is_rooted
        self.leads |= {id(b.node) for b, s in zip(here, symbols, strict=True) if s and not rooted(s)}
        uses = [r for r in self.module.index.references[name] if r.scope.home(name) is scope]
        if len({self.resolver.canonical(symbol or "") for symbol in symbols}) > 1:
            if self.is_meant(uses, [symbol for symbol in symbols if symbol]):
                self.notices += [(OPTIONAL, f) for f in _ambiguous(name, here, uses)]
            return
        home = _import_scope(relevant[0], self.module, self.resolver)
        for reference in uses:
            self.use(Use(reference.node, reference.scope), str(symbols[0]), home)

    def is_meant(self, uses: Sequence[Reference], symbols: Sequence[str]) -> bool:
        """Whether one of ``symbols`` is Horovod's, or leads some use to what is."""
        found = (_resolve(Use(r.node, r.scope), s, self.module, self.resolver, r.scope) for r in uses for s in symbols)
        return any(map(self.resolver.is_followed, symbols)) or any(site for site, _ in found)

    def through_modules(self, name: str, scope: Scope) -> None:
        """Uses through a module of the program, where ``name`` means one, or nothing."""
        here = scope.bindings[name]
        sources = {binding.symbol for binding in here if binding.symbol is not None}
        found: dict[int, tuple[Use, list[str]]] = {}
        for use, symbol in _through_modules(name, scope, self.module, self.resolver):
            found.setdefault(id(use.node), (use, []))[1].append(symbol)
        is_one = all(len(set(means)) == 1 and len(means) == len(sources) for _, means in found.values())
        if found and not (is_one and all(b.symbol or (b.value is not None and is_none(b.value)) for b in here)):
            self.notices += [(OPTIONAL, f) for f in _ambiguous(name, here, [use for use, _ in found.values()])]
            return
        for use, means in found.values():
            self.use(use, means[0], scope)

    def may_go(self, binding: Binding) -> bool:
        """Whether ``binding`` is of no use once nothing refers to it: not a parameter, or a name among many."""
        if binding.kind == "parameter" or self.resolver.carried.is_flag(binding):
            return False
        return not isinstance(binding.node, cst.ImportFrom) or self.resolver.is_relevant(binding.symbol or "")

    def attributes(self, carrier: Carrier, symbol: str) -> None:
        """Uses of the module through an attribute that it is kept in."""
        index = self.module.index
        for node in index.attributes[carrier.name]:
            stored = isinstance(index.parent(node), (cst.AssignTarget, cst.AnnAssign))
            if not stored and not self.resolver.imported(dotted_name(node), self.module, 0):
                self.use(Use(node, index.scope_of(node)), symbol, index.scope)

    def use(self, use: Use, symbol: str, home: Scope) -> None:
        site, refusal = _resolve(use, symbol, self.module, self.resolver, home)
        self.sites += [site] if site else []
        self.notices += [refusal] if refusal else []

    def question(self, question: Question) -> None:
        """``if hvd is not None``: a site of the module's truth."""
        symbol = self.resolver.carried.symbols[question.carrier]
        index = self.module.index
        scope = index.scope_of(question.node)
        symbol = f"{self.resolver.canonical(symbol)}.__bool__"
        self.sites.append(Site(symbol, question.node, None, self.module, scope, index.scope))


def _through_modules(name: str, scope: Scope, module: Module, resolver: Resolver) -> Iterator[tuple[Use, str]]:
    """Uses of Horovod through a module of the program that has it: ``comm.rank()`` after ``import comm``."""
    for reference, start in _imports(name, scope, module):
        node: cst.BaseExpression = reference.node
        symbol = start
        while isinstance(holder := module.index.parent(node), cst.Attribute) and holder.value is node:
            node, symbol = holder, f"{symbol}.{holder.attr.value}"
            if found := resolver.imported(symbol, module, 0):
                yield Use(node, reference.scope), found
                break


def _by_string(name: str, scope: Scope, module: Module, resolver: Resolver) -> Iterator[tuple[str, Finding]]:
    """``getattr(comm, "rank")`` where ``comm`` has ``rank`` from Horovod."""
    for reference, symbol in _imports(name, scope, module):
        second = _second_argument(reference.node, module)
        if second is not None and resolver.imported(f"{symbol}.{second.raw_value}", module, 0):
            message = f"{second.raw_value!r} is taken by its name from a file that has it from Horovod"
            yield ESCAPES, _blocked(reference.node, message)


def _as_values(name: str, scope: Scope, module: Module, resolver: Resolver) -> Iterator[tuple[str, Finding]]:
    """A module of the program, used as a value, where names that it has from Horovod are attributes of something."""
    for reference, symbol in _imports(name, scope, module):
        holder = module.index.parent(reference.node)
        exporter = resolver.find(module, symbol)
        if exporter is None or isinstance(holder, cst.Attribute) or is_asked(reference.node, module):
            continue
        for own, bindings in exporter.index.scope.bindings.items():
            symbols = (resolver.symbol(binding, exporter) for binding in bindings)
            if any(s and resolver.is_rooted(s) for s in symbols) and _is_attribute(own, module.functions.modules):
                message = f"the module {name}, which has {own!r} from Horovod, is used as a value: name what is needed"
                yield ESCAPES, _blocked(reference.node, message)
                break


def _is_attribute(name: str, modules: Sequence[Module]) -> bool:
    """Whether ``name`` is an attribute of something that is not imported."""
    return any(not _is_imported(node, module) for module in modules for node in module.index.attributes[name])


def _imports(name: str, scope: Scope, module: Module) -> Iterator[tuple[Reference, str]]:
    symbols = dict.fromkeys(b.symbol for b in scope.bindings[name] if b.symbol is not None)
    for reference in module.index.references[name] if symbols else ():
        if reference.scope.home(name) is scope:
            yield from ((reference, symbol) for symbol in symbols)


def _hidden(module: Module, bindings: Sequence[Binding]) -> Iterator[Binding]:
    """Bindings of class bodies, such as ``hvd = hvd``, that read the outer name before they hide it."""
    names = {binding.name for binding in bindings}
    for scope in module.index.scopes.values():
        if scope.kind == "class":
            for name in names & scope.bindings.keys():
                yield from (b for b in scope.bindings[name] if b.value is not None and name in _names_in(b.value))


def _names_in(node: cst.CSTNode) -> set[str]:
    own = {node.value} if isinstance(node, cst.Name) else set()
    return own.union(*map(_names_in, children_of(node)))


def _bound_names(module: Module) -> Iterator[tuple[str, Scope]]:
    scopes = [module.index.scope, *module.index.scopes.values()]
    return ((name, scope) for scope in scopes for name in scope.bindings)


def _import_scope(binding: Binding, module: Module, resolver: Resolver) -> Scope:
    if binding.symbol is None and (root := dotted_name(binding.value).partition(".")[0]):
        source = binding.scope.lookup(root)
        if source and source[0] is not binding:
            return _import_scope(source[0], module, resolver)
    return module.index.scope if binding.kind == "parameter" else binding.scope


def _resolve(
    use: Use, symbol: str, module: Module, resolver: Resolver, home: Scope
) -> tuple[Site | None, tuple[str, Finding] | None]:
    node: cst.BaseExpression = use.node
    known: tuple[cst.BaseExpression, str] | None = (node, symbol) if resolver.rule_for(symbol) else None
    while isinstance(holder := module.index.parent(node), cst.Attribute) and holder.value is node:
        node, symbol = holder, f"{symbol}.{holder.attr.value}"
        if resolver.rule_for(symbol):
            known = (node, symbol)
    if known is None and not resolver.is_rooted(symbol):
        return None, None
    if known is None and resolver.is_module(symbol):
        named = _named_by_string(node, symbol, module, resolver)
        if named is not None:
            return Site(*named, None, module, use.scope, home, _second_argument(node, module)), None
        return None, _escape(node, symbol, module, resolver)
    node, symbol = known or (node, symbol)
    holder = module.index.parent(node)
    if isinstance(holder, (cst.AssignTarget, cst.AugAssign, cst.Del, cst.AnnAssign)) and _is_target(holder, node):
        return None, (ESCAPES, _blocked(node, f"{symbol} is assigned to or deleted"))
    call = holder if isinstance(holder, cst.Call) and holder.func is node else None
    typed = isinstance(holder, (cst.Annotation, cst.SubscriptElement, cst.Index, cst.BinaryOperation)) and any(
        isinstance(around, cst.Annotation) for around in module.index.ancestors(node)
    )
    canonical = resolver.registry.canonical(symbol)
    return Site(canonical, node, call, module, use.scope, home, is_annotation=typed), None


def _second_argument(node: cst.BaseExpression, module: Module) -> cst.SimpleString | None:
    """The string in ``call(node, "name", ...)``, as in ``setattr``."""
    argument = module.index.parent(node)
    call = module.index.parent(argument) if isinstance(argument, cst.Arg) else None
    if isinstance(call, cst.Call) and len(call.args) >= 2 and call.args[0] is argument:
        second = call.args[1].value
        return second if isinstance(second, cst.SimpleString) and not second.prefix else None
    return None


def _named_by_string(
    node: cst.BaseExpression, symbol: str, module: Module, resolver: Resolver
) -> tuple[str, cst.BaseExpression] | None:
    """The symbol that ``setattr(hvd, "rank", ...)`` and its like name, where a rule knows it."""
    second = _second_argument(node, module)
    if second is None or resolver.rule_for(f"{symbol}.{second.raw_value}") is None:
        return None
    return resolver.registry.canonical(f"{symbol}.{second.raw_value}"), node


def _is_target(holder: cst.CSTNode, node: cst.CSTNode) -> bool:
    return not isinstance(holder, (cst.AugAssign, cst.AnnAssign)) or holder.target is node


def _escape(node: cst.BaseExpression, symbol: str, module: Module, resolver: Resolver) -> tuple[str, Finding] | None:
    """The finding for a module that is used as a value; None where it is known what becomes of it."""
    if id(node) in resolver.carried.flows:
        return None
    reason = resolver.carried.refused.get(id(node), "so what is done with it cannot be seen")
    return ESCAPES, _blocked(node, f"the module {symbol} is used as a value, {reason}")


def _ambiguous(name: str, bindings: Sequence[Binding], uses: Sequence[Reference | Use]) -> Iterator[Finding]:
    reason = f"{name!r} is bound in more than one way, so what it means here is decided at run time"
    for node in (*(binding.node for binding in bindings), *(use.node for use in uses)):
        yield _blocked(node, reason)


def _stars(module: Module, resolver: Resolver) -> Iterator[tuple[str, Finding]]:
    """Star imports of Horovod, where some of the names that the file takes from them are not known."""
    for statement, source in module.index.stars:
        if resolver.is_relevant(source) and resolver.is_module(source) and resolver.is_followed(source):
            unknown = [name for name in unbound_names(module) if name not in BUILT_IN]
            if unknown or not resolver.is_rooted(source):
                names = ", ".join(map(repr, unknown[:3])) or "everything"
                yield STAR, _blocked(statement, f"the star import may be where {names} comes from: import it by name")
                continue
            taken = sorted(n for n, bs in module.index.scope.bindings.items() if any(b.node is statement for b in bs))
            if taken:
                yield (
                    STAR,
                    Finding(statement, "review", f"the star import goes; what it brought in: {', '.join(taken)}"),
                )
            else:
                message = "nothing is taken from the star import: it goes"
                yield IMPORT, Finding(statement, "exact", message, (Remove(statement),))


def _handed_in(module: Module, resolver: Resolver) -> Iterator[tuple[str, Finding]]:
    """Uses of ``hvd``, or ``self.hvd``, that code out of sight must have given a meaning: most likely Horovod."""
    index = module.index
    for name in _CUSTOMARY:
        named = [r.node for r in index.references[name] if _is_open(r, name, resolver)]
        stored = any(isinstance(index.parent(node), cst.AssignTarget) for node in index.attributes[name])
        known = stored or Carrier("attribute", name) in resolver.carried.symbols
        kept = [] if known else [n for n in index.attributes[name] if not _is_imported(n, module)]
        for node in (*named, *kept):
            use = index.parent(node)
            if isinstance(use, cst.Attribute) and use.value is node and _is_horovods(use.attr.value, resolver):
                message = f"{name!r} comes from code out of sight, and is used as Horovod is: give its file too"
                yield ESCAPES, _blocked(node, message)


_CUSTOMARY = ("hvd", "horovod")


def _is_open(reference: Reference, name: str, resolver: Resolver) -> bool:
    """Whether ``reference`` is to a parameter that was not followed, or to nothing that the module binds."""
    home = reference.scope.home(name)
    if home is None:
        return True
    parameters = all(b.kind == "parameter" for b in home.bindings[name]) and isinstance(home.node, cst.FunctionDef)
    return parameters and resolver.carried.symbol(home, name) is None and not _is_called_in_sight(home, resolver)


def _is_called_in_sight(scope: Scope, resolver: Resolver) -> bool:
    """Whether every call of the function that opens ``scope`` is in sight, so that what it is given is known."""
    functions = resolver.carried.functions
    own = [d for found in functions.by_name.values() for d in found if d.function is scope.node]
    calls = [call for definition in own[:1] for _, call in functions.calls(definition)]
    return bool(calls) and all(isinstance(call, cst.Call) for call in calls)


def _is_imported(node: cst.Attribute, module: Module) -> bool:
    root = dotted_name(node.value).partition(".")[0]
    bindings = module.index.scope_of(node).lookup(root) if root else ()
    return any(binding.kind == "import" for binding in bindings)


def _is_horovods(name: str, resolver: Resolver) -> bool:
    known = resolver.registry.by_symbol
    return any(symbol.startswith("horovod.") and symbol.endswith(f".{name}") for symbol in known)


def _is_quiet(statement: cst.CSTNode) -> bool:
    """Whether ``statement`` only imports, defines or assigns."""
    kinds = (cst.Import, cst.ImportFrom, cst.Assign, cst.AnnAssign, cst.Pass)
    if isinstance(statement, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
        return all(isinstance(part, kinds) or _is_text(part) for part in statement.body)
    if isinstance(statement, (cst.If, cst.Try, cst.Else, cst.ExceptHandler)):
        orelse = [statement.orelse] if isinstance(statement, (cst.If, cst.Try)) and statement.orelse else []
        handlers = statement.handlers if isinstance(statement, cst.Try) else ()
        return all(map(_is_quiet, (*statement.body.body, *orelse, *handlers)))
    return isinstance(statement, (cst.FunctionDef, cst.ClassDef))


def _is_text(statement: cst.BaseSmallStatement) -> bool:
    return isinstance(statement, cst.Expr) and isinstance(statement.value, (cst.SimpleString, cst.ConcatenatedString))


def _blocked(node: cst.CSTNode, message: str) -> Finding:
    return Finding(node, "blocked", message)


def _under(symbol: str, root: str) -> bool:
    return symbol == root or symbol.startswith(root + ".")
