"""What a function does to start and stop Horovod, and Ray's workers need not do.

Ray joins the process group before the function starts and leaves it afterwards, and fails when the function has left
it already. So ``hvd.shutdown()`` goes, and ``hvd.init()`` does where the function that has it is only handed to Ray;
where it is called elsewhere too, ``init_process_group()`` does nothing on a worker that has joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from migrator.api import Context, Module, Needs, NextStep, Site, cst, planner

from .executor_plan import Executors
from .names import EXECUTOR, TRAINER, backends, is_started_by_ray


@dataclass(frozen=True, eq=False)
class Joined:
    """The sites of ``init`` and ``shutdown``, by the identity of their calls, that Ray makes superfluous."""

    calls: frozenset[int] = field(default_factory=frozenset)


def is_joined(site: Site, context: Context) -> bool:
    """Whether Ray does what ``site`` asks for."""
    return any(id(site.call) in plan.calls for plan in context.plan(Joined))


@planner
def plan_joined(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the calls that go, and say how a program that Ray starts is started now."""
    if not is_started_by_ray(context):
        return (Joined(),), ()
    handed = list(_handed(context))
    shipped = {id(function) for module, function in _shipped(handed) if _is_only_handed(function, module, handed)}
    inits = [site for site in context.uses("horovod.torch.init") if _function_around(site) in shipped]
    calls = (site for site in (*inits, *context.uses("horovod.torch.shutdown")) if site.is_discarded)
    sites = [*context.uses(TRAINER), *context.uses(EXECUTOR), *(s for m in context.modules for s in backends(m))]
    paths = dict.fromkeys(site.module.path for site in sites)
    steps = [NextStep(f"run {path} as before: Ray Train starts the ranks") for path in paths]
    return (Joined(frozenset(id(site.call) for site in calls)), *steps, Needs("ray[train]>=2.7")), ()


Handed = tuple[Module, cst.BaseExpression]


def _shipped(handed: Sequence[Handed]) -> Iterator[tuple[Module, cst.FunctionDef]]:
    """The functions of the program that are handed to Ray by name."""
    for module, node in handed:
        for binding in module.index.scope_of(node).lookup(node.value) if isinstance(node, cst.Name) else ():
            if isinstance(binding.node, cst.FunctionDef):
                yield module, binding.node


def _handed(context: Context) -> Iterator[Handed]:
    calls = [(site.module, site.call, "train_loop_per_worker") for site in context.uses(TRAINER)]
    calls += [(run.module, run.call, "fn") for plan in context.plan(Executors) for run in plan.runs]
    for module, call, name in calls:
        for argument in call.args[:1] if call is not None else ():
            if argument.keyword is None and not argument.star:
                yield module, argument.value
        for argument in call.args if call is not None else ():
            if argument.keyword is not None and argument.keyword.value == name:
                yield module, argument.value


def _is_only_handed(function: cst.FunctionDef, module: Module, handed: Sequence[Handed]) -> bool:
    """Whether nothing but handing it to Ray is done with ``function``."""
    index, name = module.index, function.name.value
    uses = [r.node for r in index.references[name] if any(b.node is function for b in r.scope.lookup(name))]
    others = [other for other in module.functions.modules if other is not module and name in other.index.names]
    return not others and {id(use) for use in uses} <= {id(node) for _, node in handed}


def _function_around(site: Site) -> int:
    holders = site.module.index.ancestors(site.target)
    return next((id(holder) for holder in holders if isinstance(holder, cst.FunctionDef)), 0)
