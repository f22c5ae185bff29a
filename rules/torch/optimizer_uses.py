"""Where the program's optimizers step, are synchronized or are handed to a gradient scaler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from migrator.api import Context, Module, Site, cst, dotted_name

from .values import symbol_of

if TYPE_CHECKING:
    from .plan import Plan

SYNCHRONIZE = "horovod.torch.DistributedOptimizer.synchronize"
SKIP = "horovod.torch.DistributedOptimizer.skip_synchronize"
REDUCE = "horovod.torch.DistributedOptimizer.step"

_KEEPS_NOTHING = ("step", "unscale_", "isinstance", "print", "len", "save", "append")
_KNOWN = ("Scheduler", "LR", "lr_scheduler", "Warm", "Cosine", "adjust", "learning_rate", "Optimizer")


@dataclass(frozen=True, eq=False)
class OptimizerUses:
    """Every use that matters of the optimizers that Horovod wraps, known by the last part of their names."""

    names: frozenset[str]
    synchronized: tuple[tuple[Module, cst.Call], ...]
    skipped: tuple[tuple[Module, cst.Call], ...]
    steps: tuple[tuple[Module, cst.Call], ...]
    scaled: tuple[tuple[Module, cst.Call], ...]
    unscaled: tuple[tuple[Module, cst.Call], ...]
    steps_in_sight: bool
    has_closure: bool
    fallback: Site | None

    @property
    def needs_names(self) -> bool:
        """Whether the reduction must be called by name: it has to come before something else than the step."""
        return bool(self.synchronized or self.skipped or self.scaled)

    def is_step(self, call: cst.Call) -> bool:
        """Whether ``call`` steps one of the optimizers, itself or through a gradient scaler."""
        return any(call is other for _, other in (*self.steps, *self.scaled))

    def sites(self, plan_of: Callable[[cst.BaseExpression], Plan | None]) -> Iterator[Site]:
        """The sites at which the rules act: each carries a symbol made from Horovod's method."""
        for module, call in self.synchronized:
            yield self.site(SYNCHRONIZE, call.func, call, module)
        for module, call in self.skipped:
            yield self.site(SKIP, call.func, call, module)
        for module, call in self.unreduced():
            plan = plan_of(self.optimizer(module, call))
            if plan is not None and plan.reduces(call):
                place = self.first_unscale(module, call) or call
                yield self.site(REDUCE, place.func, place, module)

    def site(self, symbol: str, node: cst.BaseExpression, call: cst.Call, module: Module) -> Site:
        home = module.index.scope
        if self.fallback is not None and self.fallback.module is module:
            home = self.fallback.home
        return Site(symbol, node, call, module, module.index.scope_of(call), home)

    def unreduced(self) -> Iterator[tuple[Module, cst.Call]]:
        """The steps, plain or scaled, before which nothing has reduced the gradients."""
        for module, call in (*self.steps, *self.scaled):
            if not self.is_skipping(module, call) and not self.follows_synchronize(module, call):
                yield module, call

    def is_scaled(self, call: cst.Call) -> bool:
        """Whether a gradient scaler takes the step."""
        return any(call is other for _, other in self.scaled)

    def is_exclusive(self, module: Module, call: cst.Call) -> bool:
        """Whether another branch of the same ``if`` synchronizes: this one may be for programs without Horovod."""
        reduced = [
            *(call for m, call in self.synchronized if m is module),
            *(i for m, i in self.skipped if m is module),
        ]
        around = [set(map(id, module.index.ancestors(node))) for node in reduced]
        holders = list(module.index.ancestors(call))
        branches = [(holder, inner) for inner, holder in pairwise(holders) if isinstance(holder, cst.If)]
        return any(id(h) in known and id(inner) not in known for h, inner in branches for known in around)

    def optimizer(self, module: Module, call: cst.Call) -> cst.BaseExpression:
        """The optimizer of ``optimizer.step()``, or of ``scaler.step(optimizer)``."""
        if self.is_scaled(call) or any(call is other for _, other in self.unscaled):
            return call.args[0].value
        assert isinstance(call.func, cst.Attribute)
        return call.func.value

    def is_skipping(self, module: Module, call: cst.Call) -> bool:
        items = (m.index.parent(skip) for m, skip in self.skipped if m is module)
        withs = {id(module.index.parent(item)) for item in items if item is not None}
        return any(id(holder) in withs for holder in module.index.ancestors(call))

    def follows_synchronize(self, module: Module, call: cst.Call) -> bool:
        return any(_block(module, call) is _block(m, other) for m, other in self.synchronized if m is module)

    @property
    def reduces_twice(self) -> bool:
        """Whether some step reduces again what synchronize has reduced: without skip_synchronize around it."""
        steps = (*self.steps, *self.scaled)
        return any(self.follows_synchronize(m, call) and not self.is_skipping(m, call) for m, call in steps)

    def first_unscale(self, module: Module, call: cst.Call) -> cst.Call | None:
        for other_module, other in self.unscaled:
            if other_module is module and _block(module, other) is _block(module, call):
                return other
        return None


def optimizer_uses(context: Context, wrappers: Sequence[Site]) -> OptimizerUses:
    """Find the uses in every module of the program."""
    names = frozenset(
        dotted_name(site.assigned_to).rpartition(".")[2] for site in wrappers if site.assigned_to is not None
    )
    found = _Search(names)
    for module in context.modules:
        found.search(module)
    return OptimizerUses(
        names,
        tuple(found.synchronized),
        tuple(found.skipped),
        tuple(found.steps),
        tuple(found.scaled),
        tuple(found.unscaled),
        found.steps_in_sight and bool(names) and len(names) == len(wrappers),
        found.has_closure,
        wrappers[0] if wrappers else context.sites[0] if context.sites else None,
    )


class _Search:
    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.synchronized: list[tuple[Module, cst.Call]] = []
        self.skipped: list[tuple[Module, cst.Call]] = []
        self.steps: list[tuple[Module, cst.Call]] = []
        self.scaled: list[tuple[Module, cst.Call]] = []
        self.unscaled: list[tuple[Module, cst.Call]] = []
        self.steps_in_sight = True
        self.has_closure = False

    def search(self, module: Module) -> None:
        for attribute in module.index.attributes["synchronize"]:
            if (call := _called(attribute, module)) and self.is_optimizer(attribute.value, module):
                self.synchronized.append((module, call))
        for attribute in module.index.attributes["skip_synchronize"]:
            if call := _called(attribute, module):
                self.skipped.append((module, call))
        for attribute in module.index.attributes["step"]:
            if call := _called(attribute, module):
                self.step(attribute, call, module)
        for attribute in module.index.attributes["unscale_"]:
            call = _called(attribute, module)
            if call and call.args and self.is_optimizer(call.args[0].value, module):
                self.unscaled.append((module, call))
        self.escapes(module)

    def step(self, attribute: cst.Attribute, call: cst.Call, module: Module) -> None:
        if self.is_optimizer(attribute.value, module):
            self.steps.append((module, call))
            self.has_closure |= bool(call.args)
            self.steps_in_sight &= self.is_ours(attribute.value, module)
        elif call.args and self.is_optimizer(call.args[0].value, module):
            self.scaled.append((module, call))

    def is_optimizer(self, node: cst.BaseExpression, module: Module) -> bool:
        """Whether ``node`` names an optimizer: as one that is wrapped is called, or by a name that says so."""
        name = dotted_name(node).rpartition(".")[2]
        if not name or symbol_of(node, module):
            return False
        lowered = name.lower()
        return name in self.names or ("opt" in lowered and "sched" not in lowered and "option" not in lowered)

    def is_ours(self, node: cst.BaseExpression, module: Module) -> bool:
        """Whether ``node`` is called as an optimizer that is wrapped, or is a parameter that one may be handed to."""
        name = dotted_name(node)
        bindings = module.index.scope_of(node).lookup(name.partition(".")[0])
        return name.rpartition(".")[2] in self.names or any(b.kind == "parameter" for b in bindings if name == b.name)

    def escapes(self, module: Module) -> None:
        """Notice where an optimizer is handed to code that may step it."""
        for name in self.names:
            nodes = [r.node for r in module.index.references[name]] + list(module.index.attributes[name])
            for node in nodes:
                holder = module.index.parent(node)
                if (isinstance(holder, cst.Arg) and not self.is_known(holder, module)) or isinstance(
                    holder, (cst.Return, cst.Element, cst.DictElement)
                ):
                    self.steps_in_sight = False

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
        found = module.index.scope_of(call).lookup(name)
        return len(found) == 1 and isinstance(found[0].node, cst.FunctionDef)


def _called(attribute: cst.Attribute, module: Module) -> cst.Call | None:
    call = module.index.parent(attribute)
    return call if isinstance(call, cst.Call) and call.func is attribute else None


def _block(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """The block of statements in which ``node`` stands, looking out of ``with`` blocks."""
    line = module.index.line(node)
    holder = module.index.parent(line)
    while isinstance(with_ := module.index.parent(holder) if holder else None, cst.With):
        holder = module.index.parent(with_)
    return holder
