"""Where the program's optimizers step, are synchronized or are handed to a gradient scaler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from migrator.api import Context, Module, Site, cst, definition_of, dotted_name

from ..values import is_of_project, possible_values, symbol_of
from .functions import local_function

if TYPE_CHECKING:
    from .plan import Plan

METHODS = "horovod.torch.DistributedOptimizer"
SYNCHRONIZE = f"{METHODS}.synchronize"
SKIP = f"{METHODS}.skip_synchronize"
UNKNOWN = f"{METHODS}.synchronize.unknown"
REDUCE = f"{METHODS}.step"
PASSES = f"{METHODS}.set_backward_passes_per_step"
DUPLICATES = f"{METHODS}.find_duplicates"
CLOSURE = f"{METHODS}.step.closure"

_KEEPS_NOTHING = ("step", "unscale_", "isinstance", "print", "len", "save", "append")
_KNOWN = ("Scheduler", "LR", "lr_scheduler", "Warm", "Cosine", "adjust", "learning_rate", "Optimizer")


@dataclass(frozen=True, eq=False)
class Closure:
    """A ``step(closure)``: the call, and the backward in the function that it is given, where that is in sight."""

    module: Module
    step: cst.Call
    backward: cst.Call | None


@dataclass(frozen=True, eq=False)
class OptimizerUses:
    """Every use that matters of the optimizers that Horovod wraps, known by the last part of their names."""

    names: frozenset[str]
    synchronized: tuple[tuple[Module, cst.Call], ...]
    skipped: tuple[tuple[Module, cst.Call], ...]
    steps: tuple[tuple[Module, cst.Call], ...]
    scaled: tuple[tuple[Module, cst.Call], ...]
    unscaled: tuple[tuple[Module, cst.Call], ...]
    steps_are_clear: bool
    is_handed_on: bool
    closures: tuple[Closure, ...]
    accumulating: tuple[tuple[Module, cst.Call], ...]
    named: tuple[tuple[Module, cst.Attribute], ...]
    wrapped_in: frozenset[int]
    fallback: Site | None
    unknown: tuple[tuple[Module, cst.Call], ...] = ()

    @property
    def needs_names(self) -> bool:
        """Whether the reduction must be called by name: it has to come before something else than the step."""
        return bool(self.synchronized or self.skipped or self.scaled or self.closures)

    @property
    def steps_in_sight(self) -> bool:
        """Whether every step of the optimizers is known."""
        return self.steps_are_clear and not self.is_handed_on

    @property
    def closures_in_sight(self) -> bool:
        """Whether it is known where each closure goes backward."""
        return all(closure.backward is not None for closure in self.closures)

    def is_step(self, call: cst.Call) -> bool:
        """Whether ``call`` steps one of the optimizers, itself or through a gradient scaler."""
        return any(call is other for _, other in (*self.steps, *self.scaled))

    def sites(self, plan_of: Callable[[cst.BaseExpression, Module], Plan | None]) -> Iterator[Site]:
        """The sites at which the rules act: each carries a symbol made from Horovod's method."""
        for module, call in self.synchronized:
            yield self.site(SYNCHRONIZE, call.func, call, module)
        for module, call in self.skipped:
            yield self.site(SKIP, call.func, call, module)
        for module, call in self.unknown:
            yield self.site(UNKNOWN, call.func, call, module)
        for module, call in self.unreduced():
            plan = plan_of(self.optimizer(module, call), module)
            if plan is not None and plan.reduces(call):
                place = self.first_unscale(module, call) or call
                yield self.site(REDUCE, place.func, place, module)

        for module, attribute in self.named:
            yield self.site(f"{METHODS}.{attribute.attr.value}", attribute, None, module)
        for module, call in self.accumulating:
            yield self.site(PASSES, call.func, call, module)
        for closure in self.closures:
            plan = plan_of(self.optimizer(closure.module, closure.step), closure.module)
            if closure.backward is not None and plan is not None and plan.strategy == "optimizer":
                yield self.site(CLOSURE, closure.backward.func, closure.backward, closure.module)

    def site(self, symbol: str, node: cst.BaseExpression, call: cst.Call | None, module: Module) -> Site:
        home = module.index.scope
        if self.fallback is not None and self.fallback.module is module:
            home = self.fallback.home
        return Site(symbol, node, call, module, module.index.scope_of(node), home)

    def near(self, module: Module, calls: Iterable[tuple[Module, cst.Call]]) -> Iterator[tuple[Module, cst.Call]]:
        """Those of ``calls`` that may be about an optimizer of ``module``: not in another file that wraps one."""
        return ((m, call) for m, call in calls if m is module or id(m) not in self.wrapped_in)

    def unreduced(self) -> Iterator[tuple[Module, cst.Call]]:
        """The steps, plain or scaled, before which nothing has reduced the gradients."""
        own = {id(closure.step) for closure in self.closures}
        for module, call in (*self.steps, *self.scaled):
            if (
                id(call) not in own
                and not self.is_skipping(module, call)
                and not self.follows_synchronize(module, call)
            ):
                yield module, call

    def is_scaled(self, call: cst.Call) -> bool:
        """Whether a gradient scaler takes the step."""
        return any(call is other for _, other in self.scaled)

    def is_exclusive(self, module: Module, call: cst.Call, condition: str) -> bool:
        """Whether ``call`` stands in the other branch of an ``if`` that asks for ``condition`` and synchronizes."""
        reduced = [node for m, node in (*self.synchronized, *self.skipped) if m is module]
        around = [set(map(id, module.index.ancestors(node))) for node in reduced]
        holders = list(module.index.ancestors(call))
        branches = [
            (holder, inner)
            for inner, holder in pairwise(holders)
            if isinstance(holder, cst.If) and module.source(holder.test).strip() == condition
        ]
        return any(id(h) in known and id(inner) not in known for h, inner in branches for known in around)

    def optimizer(self, module: Module, call: cst.Call) -> cst.BaseExpression:
        """The optimizer of ``optimizer.step()``, of ``scaler.step(optimizer)`` or of a closure's backward."""
        call = next((closure.step for closure in self.closures if closure.backward is call), call)
        if self.is_scaled(call) or any(call is other for _, other in self.unscaled):
            return call.args[0].value
        assert isinstance(call.func, cst.Attribute)
        return call.func.value

    def is_skipping(self, module: Module, call: cst.Call) -> bool:
        """Whether ``call`` steps under skip_synchronize of the same optimizer."""
        own = [skip for m, skip in self.skipped if m is module and self.is_same(module, skip, call)]
        items = (module.index.parent(skip) for skip in own)
        withs = {id(module.index.parent(item)) for item in items if item is not None}
        return any(id(holder) in withs for holder in module.index.ancestors(call))

    def follows_synchronize(self, module: Module, call: cst.Call) -> bool:
        """Whether the same optimizer was synchronized before ``call`` in its block, and no backward has run since."""
        index, block = module.index, block_of(module, call)
        earlier = [
            other
            for m, other in self.synchronized
            if m is module
            and block_of(m, other) is block
            and self.is_same(m, other, call)
            and index.before(other, call)
        ]
        steps = [step for m, step in (*self.steps, *self.scaled) if m is module and self.is_same(m, step, call)]
        ends = [*index.attributes["backward"], *(step for step in steps if step is not call)]
        return any(not any(index.before(o, end) and index.before(end, call) for end in ends) for o in earlier)

    def is_same(self, module: Module, first: cst.Call, second: cst.Call) -> bool:
        """Whether two calls are about an optimizer of the same name."""
        return dotted_name(self.optimizer(module, first)) == dotted_name(self.optimizer(module, second))

    @property
    def reduces_twice(self) -> bool:
        """Whether some step reduces again what synchronize has reduced: without skip_synchronize around it."""
        steps = (*self.steps, *self.scaled)
        return any(self.follows_synchronize(m, call) and not self.is_skipping(m, call) for m, call in steps)

    @property
    def skips_without_synchronize(self) -> bool:
        """Whether some step skips the reduction of gradients that nothing has reduced."""
        steps = (*self.steps, *self.scaled)
        skipping = [(m, call) for m, call in steps if self.is_skipping(m, call)]
        return len(skipping) < len(self.skipped) or not all(self.follows_synchronize(m, call) for m, call in skipping)

    def first_unscale(self, module: Module, call: cst.Call) -> cst.Call | None:
        """Where the same optimizer's gradients are unscaled for the step ``call``: after the step before it."""
        index, block = module.index, block_of(module, call)
        steps = [s for m, s in self.scaled if m is module and s is not call and self.is_same(m, s, call)]
        for other_module, other in self.unscaled:
            here = other_module is module and block_of(module, other) is block and index.before(other, call)
            between = any(index.before(other, step) and index.before(step, call) for step in steps)
            if here and self.is_same(module, other, call) and not between:
                return other
        return None


def optimizer_uses(context: Context, wrappers: Sequence[Site]) -> OptimizerUses:
    """Find the uses in every module of the program."""
    targets = [site.assigned_to for site in wrappers]
    names = _with_returned(
        {dotted_name(target).rpartition(".")[2] for target in targets if target is not None}, context
    )
    found = _Search(names)
    for module in context.modules:
        found.follow(module)
    for module in context.modules:
        found.search(module)
    found.escapes()
    return OptimizerUses(
        found.names,
        tuple(found.synchronized),
        tuple(found.skipped),
        tuple(found.steps),
        tuple(found.scaled),
        tuple(found.unscaled),
        found.steps_are_clear and bool(names) and all(names) and all(target is not None for target in targets),
        found.is_handed_on,
        tuple(found.closures),
        tuple(found.accumulating),
        tuple(found.named),
        frozenset(id(site.module) for site in wrappers),
        wrappers[0] if wrappers else context.sites[0] if context.sites else None,
        tuple(found.unknown) if context.sites else (),
    )


def _with_returned(names: set[str], context: Context) -> frozenset[str]:
    """``names``, and those under which the optimizers are known where functions return them to."""
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        for module in context.modules:
            for node in _named(name, module):
                more = {other for other in returned_as(node, module) if other} - names
                names |= more
                waiting += more
    return frozenset(names)


def returned_as(node: cst.BaseExpression, module: Module) -> list[str]:
    """The names that the callers of a function give to what it returns of ``node``; an empty one where they do not.

    An empty list where it is not returned, alone or in a tuple, or is not in sight of any caller.
    """
    holder, place = module.index.parent(node), -1
    if isinstance(holder, cst.Element) and isinstance(parts := module.index.parent(holder), cst.Tuple):
        place = next(number for number, element in enumerate(parts.elements) if element is holder)
        holder = module.index.parent(parts)
    function = next((h for h in module.index.ancestors(node) if isinstance(h, cst.FunctionDef)), None)
    if not isinstance(holder, cst.Return) or function is None:
        return []
    calls = module.functions.calls(definition_of(function, module))
    return [_assigned(other.index.parent(call), place) for other, call in calls]


def _assigned(statement: cst.CSTNode | None, place: int) -> str:
    """The last name of what ``statement`` assigns to, or to the part of it at ``place``; empty where it does not."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return ""
    target: cst.BaseExpression = statement.targets[0].target
    if place >= 0:
        if not isinstance(target, cst.Tuple) or place >= len(target.elements):
            return ""
        target = target.elements[place].value
    return dotted_name(target).rpartition(".")[2]


class _Search:
    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.synchronized: list[tuple[Module, cst.Call]] = []
        self.skipped: list[tuple[Module, cst.Call]] = []
        self.steps: list[tuple[Module, cst.Call]] = []
        self.scaled: list[tuple[Module, cst.Call]] = []
        self.unscaled: list[tuple[Module, cst.Call]] = []
        self.unknown: list[tuple[Module, cst.Call]] = []
        self.parameters: set[tuple[int, str]] = set()
        self.uses: dict[int, tuple[Module, cst.BaseExpression]] = {}
        self.steps_are_clear = True
        self.is_handed_on = False
        self.closures: list[Closure] = []
        self.accumulating: list[tuple[Module, cst.Call]] = []
        self.named: list[tuple[Module, cst.Attribute]] = []

    def follow(self, module: Module) -> None:
        """Find the parameters, variables and attributes that an optimizer is handed to."""
        waiting = [(module, node) for name in self.names for node in _named(name, module)]
        while waiting:
            here, node = waiting.pop()
            self.uses[id(node)] = here, node
            argument = here.index.parent(node)
            if isinstance(argument, (cst.Assign, cst.AnnAssign)):
                waiting += self.stored(argument, here)
            call = here.index.parent(argument) if isinstance(argument, cst.Arg) else None
            if not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call):
                continue
            for called in here.functions.reached(call, here):
                name = called.receives(call, argument)
                if name is not None and (id(called.scope), name) not in self.parameters:
                    self.parameters.add((id(called.scope), name))
                    references = called.module.index.references[name]
                    waiting += [(called.module, r.node) for r in references if r.scope.home(name) is called.scope]

    def stored(
        self, statement: cst.Assign | cst.AnnAssign, module: Module
    ) -> Iterator[tuple[Module, cst.BaseExpression]]:
        """The uses of what ``statement`` assigns an optimizer to, where they are not known yet."""
        targets = statement.targets if isinstance(statement, cst.Assign) else (statement,)
        for target in (target.target for target in targets):
            if isinstance(target, cst.Attribute) and target.attr.value not in self.names:
                self.names |= {target.attr.value}
                modules = module.functions.modules
                yield from ((m, node) for m in modules for node in _named(target.attr.value, m))
            home = module.index.scope_of(target).home(target.value) if isinstance(target, cst.Name) else None
            if home is not None and isinstance(target, cst.Name) and (id(home), target.value) not in self.parameters:
                self.parameters.add((id(home), target.value))
                references = module.index.references[target.value]
                yield from ((module, r.node) for r in references if r.scope.home(target.value) is home)

    def search(self, module: Module) -> None:
        skipping = module.index.attributes["skip_synchronize"]
        self.skipped += [(module, call) for attribute in skipping if (call := _called(attribute, module))]
        known = {dotted_name(attribute.value) for attribute in skipping}
        for attribute in module.index.attributes["synchronize"]:
            call = _called(attribute, module)
            if call is None or call.args or symbol_of(attribute.value, module):
                continue
            if dotted_name(attribute.value) in known or self.is_optimizer(attribute.value, module):
                self.synchronized.append((module, call))
            elif not _is_foreign(attribute.value, module):
                self.unknown.append((module, call))
        passes = module.index.attributes["set_backward_passes_per_step"]
        self.accumulating += [(module, call) for attribute in passes if (call := _called(attribute, module))]
        for attribute in module.index.attributes["step"]:
            if call := _called(attribute, module):
                self.step(attribute, call, module)
        for attribute in module.index.attributes["unscale_"]:
            call = _called(attribute, module)
            if call and call.args and self.is_optimizer(call.args[0].value, module):
                self.unscaled.append((module, call))
        self.named += [(module, attribute) for attribute in self.values(module)]

    def values(self, module: Module) -> Iterator[cst.Attribute]:
        """Horovod's methods of an optimizer that are not called where they are named, and its check of names."""
        for name in ("synchronize", "skip_synchronize", "set_backward_passes_per_step", "find_duplicates"):
            for attribute in module.index.attributes[name]:
                is_value = name == "find_duplicates" or _called(attribute, module) is None
                if is_value and self.is_optimizer(attribute.value, module):
                    yield attribute

    def step(self, attribute: cst.Attribute, call: cst.Call, module: Module) -> None:
        if self.is_optimizer(attribute.value, module):
            self.steps.append((module, call))
            self.closures += _closures(call, module)
            self.steps_are_clear &= self.is_ours(attribute.value, module)
        elif call.args and self.is_optimizer(call.args[0].value, module):
            self.scaled.append((module, call))

    def is_optimizer(self, node: cst.BaseExpression, module: Module) -> bool:
        """Whether ``node`` names an optimizer: as one that is wrapped is called, or by a name that says so."""
        name = dotted_name(node).rpartition(".")[2]
        if not name or symbol_of(node, module):
            return False
        if self.is_handed(node, module) or name in self.names:
            return True
        lowered = name.lower()
        return "opt" in lowered and "sched" not in lowered and "option" not in lowered

    def is_handed(self, node: cst.BaseExpression, module: Module) -> bool:
        """Whether ``node`` is a parameter that an optimizer is handed to."""
        home = module.index.scope_of(node).home(node.value) if isinstance(node, cst.Name) else None
        return home is not None and isinstance(node, cst.Name) and (id(home), node.value) in self.parameters

    def is_ours(self, node: cst.BaseExpression, module: Module) -> bool:
        """Whether ``node`` is called as an optimizer that is wrapped, or is a parameter that one may be handed to."""
        name = dotted_name(node)
        bindings = module.index.scope_of(node).lookup(name.partition(".")[0])
        return name.rpartition(".")[2] in self.names or any(b.kind == "parameter" for b in bindings if name == b.name)

    def escapes(self) -> None:
        """Notice where an optimizer, or its step, is handed to code that may step it."""
        for module, node in self.uses.values():
            holder = module.index.parent(node)
            if isinstance(holder, cst.Arg):
                self.is_handed_on |= not self.is_known(holder, module)
            elif isinstance(holder, (cst.Return, cst.Element, cst.DictElement)):
                returned = returned_as(node, module)
                self.is_handed_on |= not returned or not set(returned) <= self.names
            elif isinstance(holder, cst.Attribute) and holder.value is node and holder.attr.value == "step":
                self.is_handed_on |= _called(holder, module) is None

    def is_known(self, argument: cst.Arg, module: Module) -> bool:
        call = module.index.parent(argument)
        if not isinstance(call, cst.Call):
            return False
        name = dotted_name(call.func).rpartition(".")[2]
        if (
            name.startswith("broadcast_optimizer_state")
            or name in _KEEPS_NOTHING
            or any(word in name for word in _KNOWN)
        ):
            return True
        reached = module.functions.reached(call, module)
        given = (found.receives(call, argument) for found in reached)
        return bool(reached) and all(parameter is not None for parameter in given)


def _closures(step: cst.Call, module: Module) -> Iterator[Closure]:
    """The closure that ``step`` is given, if it is given one."""
    given = [a for a in step.args if a.keyword is None or a.keyword.value == "closure"][:1]
    for argument in given:
        function = local_function(argument.value, module)
        if function is not None:
            calls = (module.index.parent(node) for node in module.index.attributes["backward"])
            own = [
                c for c in calls if isinstance(c, cst.Call) and any(h is function for h in module.index.ancestors(c))
            ]
            seen = _sees_same(step, function, module)
            yield Closure(module, step, own[0] if len(own) == 1 and seen else None)
        elif isinstance(argument.value, cst.Lambda) or "closure" in dotted_name(argument.value):
            yield Closure(module, step, None)


def _sees_same(step: cst.Call, function: cst.FunctionDef, module: Module) -> bool:
    """Whether the name of the optimizer means the same in ``function`` as where it steps."""
    root = dotted_name(step.func).partition(".")[0]
    return bool(root) and module.index.scopes[id(function)].home(root) is module.index.scope_of(step).home(root)


def _named(name: str, module: Module) -> list[cst.BaseExpression]:
    return [*(reference.node for reference in module.index.references[name]), *module.index.attributes[name]]


def _is_foreign(node: cst.BaseExpression, module: Module) -> bool:
    """Whether ``node`` is what CUDA synchronizes, an event or a stream, or an object that another library made."""
    name = dotted_name(node).rpartition(".")[2].lower()
    if any(word in name for word in ("event", "stream", "evt", "timer", "cuda", "start", "end")):
        return True
    values = list(possible_values(node, module))
    makers = [symbol_of(v.func, module) if isinstance(v, cst.Call) else "" for v in values]
    return bool(makers) and all(_makes_no_optimizer(maker, module) for maker in makers)


def _makes_no_optimizer(maker: str, module: Module) -> bool:
    """Whether ``maker`` is of a library, and neither an optimizer of PyTorch nor Horovod."""
    return bool(maker) and not maker.startswith(("torch.optim.", "horovod.")) and not is_of_project(maker, module)


def _called(attribute: cst.Attribute, module: Module) -> cst.Call | None:
    call = module.index.parent(attribute)
    return call if isinstance(call, cst.Call) and call.func is attribute else None


def block_of(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """The block of statements in which ``node`` stands, looking out of ``with`` blocks."""
    line = module.index.line(node)
    holder = module.index.parent(line)
    while isinstance(with_ := module.index.parent(holder) if holder else None, cst.With):
        holder = module.index.parent(with_)
    return holder
