"""The decision, once per optimizer and before any rule runs: how its gradients are reduced, and what follows from that.

DDP is taken where the code shows it right; anything else averages at the optimizer, which equals Horovod wherever
Horovod is deterministic. The rules of this package read the plan and decide nothing of the kind themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from migrator.api import (
    Context,
    Module,
    Needs,
    NextStep,
    RefusalError,
    Scope,
    Site,
    StartedBy,
    cst,
    dotted_name,
    planner,
)

from ..deepspeed.engine import Engine, NotCanonicalError, Obstacle
from ..deepspeed.names import INITIALIZE, OBSTACLE
from ..deepspeed.training import engine_of
from ..launch.scripts import started
from ..ray.names import is_started_by_ray
from ..spark.names import starts_ranks
from ..values import is_zero, possible_values
from .apex import copying_levels
from .model_uses import Uses
from .names import BROADCAST, UNWRAP, WRAPPER
from .optimizer_uses import OptimizerUses, optimizer_uses
from .options import Options, options_of
from .proof import SPARSE, Proof, ddp_branch

Strategy = Literal["ddp", "optimizer", "deepspeed"]


@dataclass(frozen=True, eq=False)
class Plan:
    """What becomes of one DistributedOptimizer.

    ``wrap`` is the site whose statement the wrap replaces (a broadcast of parameters), or the optimizer's own site;
    ``reason`` says why the strategy was taken; ``by_name`` that reductions are called by name, ``hook`` that one is
    set; ``bound`` that the calls by name do not see the compression, which the optimizer therefore carries; ``test`` is
    the condition under which the optimizer is wrapped, where it ``is_conditional`` and the condition is one test;
    ``engine`` is how the model trains by DeepSpeed, where that is the strategy.
    """

    site: Site
    options: Options
    strategy: Strategy
    reason: str
    model: cst.BaseExpression | None
    wrap: Site | None
    sparse: bool
    by_name: bool
    hook: bool
    bound: bool
    has_ddp_branch: cst.CSTNode | None
    is_broadcast: bool
    reduces_twice: bool
    trusts_others: bool
    freezes: bool
    grows: bool
    loses_state: str
    may_copy: bool
    of_model: bool
    scales_early: bool
    clips_early: bool
    reduced_by_name: frozenset[int]
    test: cst.BaseExpression | None
    is_conditional: bool
    engine: Engine | None = None

    @property
    def name(self) -> str:
        """What the wrapped optimizer is called, without what it is an attribute of."""
        return dotted_name(self.site.assigned_to).rpartition(".")[2] if self.site.assigned_to is not None else ""

    @property
    def function(self) -> str:
        """The function by which reductions are called by name."""
        if self.bound:
            return "reduce_gradients"
        return "average_gradients_of" if self.of_model else self.options.function

    @property
    def way(self) -> tuple[object, ...]:
        """What a call that reduces by name depends on."""
        return self.strategy, self.options.function, self.bound, self.bound or tuple(self.options.keywords.values())

    def reduces(self, call: cst.Call) -> bool:
        """Whether gradients are to be reduced by name right before ``call``, a step of this optimizer."""
        return self.strategy == "optimizer" and id(call) in self.reduced_by_name


@dataclass(frozen=True, eq=False)
class Refused:
    """An optimizer that no strategy suits, and why."""

    site: Site
    reason: str


@dataclass(frozen=True, eq=False)
class Gradients:
    """What holds for the whole program: every plan, and what its optimizers are called."""

    plans: tuple[Plan, ...]
    uses: OptimizerUses

    def of(self, node: cst.BaseExpression, module: Module) -> Plan | None:
        """The plan of the optimizer that ``node`` names in ``module``; None where several plans that differ may be."""
        name = dotted_name(node).rpartition(".")[2]
        named = [plan for plan in self.plans if plan.name == name] or list(self.plans)
        here = [plan for plan in named if plan.site.module is module] or named
        return here[0] if len({plan.way for plan in here}) == 1 else None


@planner
def plan_gradients(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Plan every optimizer of the program; the sites that follow carry no Horovod symbol of their own."""
    sites = tuple(site for site in context.uses(WRAPPER) if not site.is_annotation)
    uses = optimizer_uses(context, sites)
    plans: list[Plan] = []
    refused: list[Refused] = []
    derived: list[Site] = []
    obstacles: list[Obstacle] = []
    for site in sites:
        try:
            plan, found = _plan(site, context, uses)
        except NotCanonicalError as refusal:
            refused.append(Refused(site, f"--target deepspeed: {refusal}; --target ddp would do"))
            obstacles += refusal.obstacles
            continue
        except RefusalError as refusal:
            refused.append(Refused(site, str(refusal)))
            continue
        plans.append(plan)
        derived += _engine_sites(plan)
        if plan.strategy == "ddp":
            derived += (_unwrap_site(node, site) for node in (*found.unwrapped, *found.guarded, *found.evaluated))
    if any(plan.bound for plan in plans):
        plans = [replace(plan, bound=plan.strategy == "optimizer" and plan.by_name) for plan in plans]
    gradients = Gradients(tuple(plans), uses)
    derived += uses.sites(gradients.of)
    first = {id(o.node): o for o in reversed(obstacles) if not any(o.node is site.target for site in sites)}
    derived += (_site_at(OBSTACLE, o.node, o.module) for o in first.values())
    return [*plans, *refused, *obstacles, gradients, *_next_steps(context)], derived


def _plan(site: Site, context: Context, uses: OptimizerUses) -> tuple[Plan, Uses]:
    options = options_of(site)
    if context.settings.target == "deepspeed":
        return _by_engine(site, options, context, uses), Uses()
    proof = Proof(site, options, context, uses)
    found = Uses()
    reason = proof.obstacle(found)
    wanted = "auto" if context.settings.gradients == "scope" else context.settings.gradients
    if wanted == "ddp" and proof.impossible:
        raise RefusalError(f"--gradients ddp: {proof.impossible}")
    if wanted == "ddp" and uses.closures and any(map(_searches, context.modules)):
        raise RefusalError("--gradients ddp: a line search looks at the loss, which DDP leaves different on each rank")
    by_ddp = wanted == "ddp" or (wanted == "auto" and not reason)
    if uses.closures and not by_ddp and not (uses.closures_in_sight and proof.condition() is None):
        raise RefusalError("where the closure given to step() goes backward is not in sight; --gradients ddp can do it")
    if uses.skips_without_synchronize and not uses.steps_are_clear and not by_ddp:
        raise RefusalError("which optimizer some steps are of is not in sight, and some reduce while others skip that")
    hook, by_name = _places(site, proof.condition(), uses)
    levels = copying_levels(context) if not by_ddp else set()
    of_model = bool(levels) and not hook and options.is_plain and _is_seen(site, proof.model, uses)
    if "O2" in levels and not of_model:
        raise RefusalError(
            "apex's amp.initialize gives the optimizer copies of the parameters (O2), whose gradients come after the "
            "reduction: use torch.amp, or O1"
        )
    test = proof.test()
    plan = Plan(
        site=site,
        options=options,
        strategy="ddp" if by_ddp else "optimizer",
        reason=reason or ("nothing in the code speaks against it" if by_ddp else "--gradients optimizer asks for it"),
        model=proof.model,
        wrap=proof.wrap if by_ddp else None,
        sparse=any(SPARSE.search(module.text) for module in context.modules),
        by_name=uses.needs_names,
        hook=hook and not by_ddp,
        bound=not by_ddp and uses.needs_names and not _are_seen(site, options, uses),
        has_ddp_branch=ddp_branch(site),
        is_broadcast=bool(context.uses(BROADCAST)),
        reduces_twice=options.sums and uses.reduces_twice,
        trusts_others=uses.is_handed_on and not hook and not by_ddp,
        freezes=proof.freezes(),
        loses_state=_initial_state(options.optimizer, site.module),
        may_copy=bool(levels) and not of_model,
        of_model=of_model,
        scales_early=any(uses.is_scaled(call) for _, call in uses.unreduced()),
        grows=any(module.index.attributes["add_param_group"] for module in context.modules),
        clips_early=not uses.synchronized and any(map(_clips, context.modules)),
        reduced_by_name=frozenset(map(id, by_name)),
        test=test if isinstance(test, cst.BaseExpression) else None,
        is_conditional=test is not None,
    )
    return plan, found if by_ddp else Uses()


def _by_engine(site: Site, options: Options, context: Context, uses: OptimizerUses) -> Plan:
    engine, proof = engine_of(site, options, context, uses)
    return Plan(
        site=site,
        options=options,
        strategy="deepspeed",
        reason="--target deepspeed asks for it",
        model=proof.model,
        wrap=engine.wrap,
        sparse=False,
        by_name=False,
        hook=False,
        bound=False,
        has_ddp_branch=None,
        is_broadcast=bool(context.uses(BROADCAST)),
        reduces_twice=False,
        trusts_others=False,
        freezes=proof.freezes(),
        grows=False,
        loses_state=_initial_state(options.optimizer, site.module),
        may_copy=False,
        of_model=False,
        scales_early=False,
        clips_early=False,
        reduced_by_name=frozenset(),
        test=None,
        is_conditional=False,
        engine=engine,
    )


def _engine_sites(plan: Plan) -> Iterator[Site]:
    """The place where the engine is made, and those where it takes over."""
    if plan.engine is not None:
        wrap = plan.engine.wrap
        yield Site(INITIALIZE, wrap.node, wrap.call, wrap.module, wrap.scope, wrap.home)
        yield from (_site_at(use.symbol, use.node, use.module) for use in plan.engine.uses)


def _site_at(symbol: str, node: cst.CSTNode, module: Module) -> Site:
    """A site at a call, or at a name."""
    scope = module.index.scope_of(node)
    if isinstance(node, cst.Call):
        return Site(symbol, node.func, node, module, scope, module.index.scope)
    assert isinstance(node, cst.BaseExpression)
    return Site(symbol, node, None, module, scope, module.index.scope)


def _places(site: Site, condition: str | None, uses: OptimizerUses) -> tuple[bool, list[cst.Call]]:
    """Whether a hook reduces the gradients, and the steps before which a call by name does.

    A call by name would also reduce the steps of a program whose optimizer was not wrapped; so where the wrapping is
    conditional, the hook does it, except for the branches that a program without Horovod takes. Where a gradient scaler
    steps, the reduction must come before it, and where some steps skip the reduction, a hook would not: the call then
    asks for the condition.
    """
    if not uses.needs_names:
        return True, []
    steps = uses.near(site.module, uses.unreduced())
    left = [(m, call) for m, call in steps if not (condition and uses.is_exclusive(m, call, condition))]
    if uses.skipped and uses.steps_are_clear:
        return False, [call for _, call in left]
    scaled = [call for _, call in left if uses.is_scaled(call)]
    hook = not uses.steps_in_sight or (condition is not None and bool(left) and not scaled)
    return hook, scaled if hook else [call for _, call in left]


def _are_seen(site: Site, options: Options, uses: OptimizerUses) -> bool:
    """Whether every place that reduces by name sees what the reduction is given as it is at ``site``."""
    if options.group is None and options.always_compresses:
        return True
    return all(_is_seen(site, value, uses) for value in options.keywords.values())


def _is_seen(site: Site, value: cst.BaseExpression | None, uses: OptimizerUses) -> bool:
    """Whether ``value`` means at every place that reduces by name what it means at ``site``."""
    calls = list(uses.near(site.module, (*uses.synchronized, *uses.unreduced())))
    scopes = [module.index.scope_of(call) for module, call in calls if module is site.module]
    root = dotted_name(value).partition(".")[0]
    home = site.scope.home(root) if root and root != "self" else None
    return home is not None and len(scopes) == len(calls) and all(scope.home(root) is home for scope in scopes)


def _initial_state(optimizer: cst.BaseExpression, module: Module) -> str:
    """The argument by which the optimizer's constructor puts something else than zeros into its state, if there is."""
    makers = [value for value in possible_values(optimizer, module) if isinstance(value, cst.Call)]
    names = (a.keyword.value for maker in makers for a in maker.args if a.keyword is not None and not is_zero(a.value))
    return next((name for name in names if name == "initial_accumulator_value"), "")


def _searches(module: Module) -> bool:
    """Whether an optimizer of the module searches along a line."""
    return any("strong_wolfe" in string.value for string in module.index.strings)


def _clips(module: Module) -> bool:
    """Whether the module clips gradients."""
    index = module.index
    return any(index.references[name] or index.attributes[name] for name in ("clip_grad_norm_", "clip_grad_value_"))


def _unwrap_site(node: cst.BaseExpression, origin: Site) -> Site:
    return Site(UNWRAP, node, None, origin.module, _scope(node, origin), origin.home)


def _scope(node: cst.BaseExpression, origin: Site) -> Scope:
    return origin.module.index.scope_of(node)


def _next_steps(context: Context) -> Iterator[NextStep | StartedBy | Needs]:
    """How each program that joins the process group is started now."""
    if any(starts_ranks(context)) or is_started_by_ray(context):
        return
    if context.uses("horovod.torch.init"):
        yield StartedBy("torchrun")
        if context.settings.target == "deepspeed":
            yield Needs("deepspeed")
    for path in started(context, context.uses("horovod.torch.init")):
        started_by = "--no-python ipython " if path.endswith(".ipynb") else ""
        line = f"torchrun --standalone --nproc-per-node=N {started_by}{path}"
        if context.settings.target == "deepspeed":
            line = f"deepspeed --no_local_rank --num_gpus N {path}, or {line}"
        yield NextStep(f"{line}  (in place of horovodrun or mpirun -np N)")
