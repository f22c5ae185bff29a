"""Which object of the program is a RayExecutor, and what is asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from migrator.api import Context, Module, RefusalError, Site, cst, planner

from ..tensorflow.names import is_tensorflow
from ..values import is_constant
from .members import TRAINING, obstacle
from .names import EXECUTOR, PREPARES, TENSORFLOW, prepares_model
from .scaling import NAMES, refuse_elastic, scaling

SCALING = "scaling_config"
OUT_OF_SIGHT = (
    "the executor is handed on, and Ray Train has no object that keeps workers: start and use it in one place"
)
Store = cst.Name | cst.Attribute


@dataclass(frozen=True, eq=False)
class Executor:
    """One RayExecutor: where it is made, the name of the ScalingConfig that takes its place, the uses of both."""

    site: Site
    name: str
    members: tuple[Site, ...] = ()

    @property
    def runs(self) -> tuple[Site, ...]:
        """The sites that train."""
        return tuple(member for member in self.members if member.short in TRAINING)


@dataclass(frozen=True, eq=False)
class Executors:
    """Every executor of the program by the identity of its constructor's node and of its members', or why not."""

    by_node: dict[int, Executor] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    @property
    def runs(self) -> tuple[Site, ...]:
        """The sites that train."""
        return tuple({id(run.node): run for executor in self.by_node.values() for run in executor.runs}.values())

    def of(self, site: Site) -> Executor:
        """The executor of ``site``; raises RefusalError where it was not followed."""
        if reason := self.refused.get(id(site.node)):
            raise RefusalError(reason)
        return self.by_node[id(site.node)]


@planner
def plan_executors(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Follow every executor to what is asked of it: those sites carry no symbol of their own."""
    plan = Executors()
    derived: list[Site] = []
    for site in context.uses(EXECUTOR):
        if site.call is None or site.is_annotation:
            continue
        try:
            check(site, context)
            executor = _followed(site)
        except RefusalError as refusal:
            plan.refused[id(site.node)] = str(refusal)
            continue
        derived += executor.members
        plan.refused.update(_refused(executor))
        if id(site.node) not in plan.refused:
            plan.by_node.update((id(one.node), executor) for one in (site, *executor.members))
    return (plan,), derived


def check(site: Site, context: Context) -> None:
    """Raise RefusalError for an executor that has no counterpart whatever is asked of it."""
    if is_tensorflow(context):
        raise RefusalError(TENSORFLOW)
    if prepares_model(context):
        raise RefusalError(PREPARES)
    arguments = site.arguments(*NAMES)
    refuse_elastic(arguments)
    scaling(arguments)


def _refused(executor: Executor) -> dict[int, str]:
    """Why the sites of an executor stay: all of them do where one has no counterpart."""
    reasons = {id(member.node): obstacle(member) for member in executor.members}
    names = [member.short for member in executor.members if reasons[id(member.node)]]
    if not names:
        return {}
    stays = f"stays with {names[0]}, which has no counterpart"
    return {id(executor.site.node): stays, **{node: reason or stays for node, reason in reasons.items()}}


def _followed(site: Site) -> Executor:
    target = site.assigned_to
    if not isinstance(target, (cst.Name, cst.Attribute)):
        raise RefusalError("the executor is used where it is made: give it a name first")
    uses = list(_uses(target, site))
    members = [member for module, use in uses if (member := _member(use, module, site)) is not None]
    if len(members) < len(uses):
        raise RefusalError(OUT_OF_SIGHT)
    name = SCALING if isinstance(target, cst.Name) else site.module.source(target).strip()
    if isinstance(target, cst.Name) and any(SCALING in module.index.names for module, _ in uses):
        name = target.value
    return Executor(site, name, tuple(members))


def _uses(target: Store, site: Site) -> Iterator[tuple[Module, Store]]:
    """The places where the executor is read; raises RefusalError where the name may mean something else there."""
    if isinstance(target, cst.Name):
        home = site.scope.home(target.value)
        if home is None or len(home.bindings[target.value]) != 1:
            raise RefusalError(f"{target.value!r} is bound more than once, so what it means is decided at run time")
        if home is site.module.index.scope and _is_imported(target.value, site.module):
            raise RefusalError(OUT_OF_SIGHT)
        references = site.module.index.references[target.value]
        yield from ((site.module, found.node) for found in references if found.scope.home(target.value) is home)
        return
    for module in site.module.functions.modules:
        for node in module.index.attributes[target.attr.value]:
            if node is target:
                continue
            holder = module.index.parent(node)
            if isinstance(holder, cst.AssignTarget):
                if not _is_none(module.index.parent(holder)):
                    raise RefusalError(f"{target.attr.value!r} is stored more than once, so what it means is not known")
            else:
                yield module, node


def _is_imported(name: str, module: Module) -> bool:
    """Whether another file of the program imports ``name``."""
    others = (other for other in module.functions.modules if other is not module)
    bindings = (b for other in others for found in other.index.scope.bindings.values() for b in found)
    return any((binding.symbol or "").rpartition(".")[2] == name for binding in bindings)


def _is_none(statement: cst.CSTNode | None) -> bool:
    return isinstance(statement, cst.Assign) and is_constant(statement.value, "None")


def _member(use: Store, module: Module, origin: Site) -> Site | None:
    """The site of what is asked of the executor; None where it is used as a value."""
    holder = module.index.parent(use)
    if not isinstance(holder, cst.Attribute) or holder.value is not use:
        return None
    call = module.index.parent(holder)
    called = call if isinstance(call, cst.Call) and call.func is holder else None
    home = origin.home if module is origin.module else module.index.scope
    return Site(f"{EXECUTOR}.{holder.attr.value}", holder, called, module, module.index.scope_of(holder), home)
