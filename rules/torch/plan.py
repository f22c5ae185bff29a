"""The decision, once per optimizer and before any rule runs: how its gradients are reduced, and what follows from that.

DDP is taken where the code shows it right; anything else averages at the optimizer, which equals Horovod wherever
Horovod is deterministic. The rules of this package read the plan and decide nothing of the kind themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

from migrator.api import Context, Module, NextStep, RefusalError, Scope, Site, cst, dotted_name, planner

from .apex import copying_levels
from .guards import is_main_guard
from .model_uses import Tracker, Uses, doubts_about_class, doubts_about_layers, model_of, owner_of_parameters
from .optimizer_uses import OptimizerUses, optimizer_uses
from .options import Options, options_of
from .training_loop import Step, unclear_step
from .values import is_constant, is_zero, possible_values, symbol_of

Strategy = Literal["ddp", "optimizer"]
WRAPPER = "horovod.torch.DistributedOptimizer"
BROADCAST = "horovod.torch.broadcast_parameters"
BROADCAST_STATE = "horovod.torch.broadcast_optimizer_state"
RUNNER = "sparkdl.HorovodRunner"
UNWRAP = "torch.nn.parallel.DistributedDataParallel.module"
_SPARSE = re.compile(r"\bsparse\s*=\s*True")
_ADDED_PARAMETERS = re.compile(r"\bparam_groups\b[^\r\n]*[\"']params[\"']")
_SECOND_BACKWARD = re.compile(r"\b(retain_graph|create_graph|use_reentrant)\s*=\s*True|\bautograd\.grad\(")


@dataclass(frozen=True, eq=False)
class Plan:
    """What becomes of one DistributedOptimizer.

    ``wrap`` is the site whose statement the wrap replaces (a broadcast of parameters), or the optimizer's own site;
    ``reason`` says why the strategy was taken; ``by_name`` that reductions are called by name, ``hook`` that one is
    set; ``bound`` that the calls by name do not see the compression, which the optimizer therefore carries; ``test`` is
    the condition under which the optimizer is wrapped, where it ``is_conditional`` and the condition is one test.
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
    for site in sites:
        try:
            plan, found = _plan(site, context, uses)
        except RefusalError as refusal:
            refused.append(Refused(site, str(refusal)))
            continue
        plans.append(plan)
        if plan.strategy == "ddp":
            derived += (_unwrap_site(node, site) for node in (*found.unwrapped, *found.guarded, *found.evaluated))
    if any(plan.bound for plan in plans):
        plans = [replace(plan, bound=plan.strategy == "optimizer" and plan.by_name) for plan in plans]
    gradients = Gradients(tuple(plans), uses)
    derived += uses.sites(gradients.of)
    return [*plans, *refused, gradients, *_next_steps(context)], derived


def _plan(site: Site, context: Context, uses: OptimizerUses) -> tuple[Plan, Uses]:
    options = options_of(site)
    proof = _Proof(site, options, context, uses)
    found = Uses()
    reason = proof.obstacle(found)
    wanted = context.settings.gradients
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
        sparse=any(_SPARSE.search(module.text) for module in context.modules),
        by_name=uses.needs_names,
        hook=hook and not by_ddp,
        bound=not by_ddp and uses.needs_names and not _are_seen(site, options, uses),
        has_ddp_branch=_ddp_branch(site),
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


class _Proof:
    """Tries to show from the code that wrapping the model is right; says what stands in the way."""

    def __init__(self, site: Site, options: Options, context: Context, uses: OptimizerUses) -> None:
        self.site = site
        self.options = options
        self.context = context
        self.uses = uses
        self.module = site.module
        self.model = model_of(site, dict(options.arguments))
        self.wrap = site
        self.impossible = ""

    def obstacle(self, found: Uses) -> str:
        """The first reason against DDP; empty where there is none. Fills ``found``."""
        self.impossible = self.cannot_wrap()
        if self.impossible:
            return self.impossible
        assert self.model is not None
        self.wrap = self.place()
        self.tracker(found).follow()
        for reason in (*self.asked(), *self.surroundings(), *found.doubts, *self.order(found), *self.training(found)):
            return reason
        return next(iter(self.doubts_about_model()), "")

    def cannot_wrap(self) -> str:
        """Why there is no place for ``model = DDP(model)``."""
        if self.model is None:
            return "the model of this optimizer is not in sight"
        if self.site.assigned_to is None:
            return "the optimizer is not simply assigned to a name"
        if self.options.sums:
            return "DDP averages, and the gradients are summed"
        if self.options.group is not None:
            return "gradients are reduced within a process set"
        if isinstance(self.model, cst.Name) and not self.is_bound_here(self.model.value):
            return f"{self.model.value!r} is not built in the function that wraps its optimizer"
        if _ddp_branch(self.site) is not None:
            return "the file already wraps a model with DDP"
        if self.condition() is not None:
            return "the optimizer is wrapped only under a condition"
        return ""

    def is_bound_here(self, name: str) -> bool:
        home = self.site.scope.home(name)
        return home is not None and self.site.scope.target(name) is home

    def condition(self) -> str | None:
        """The test under which the optimizer is wrapped, as text; None where it always is, empty if unclear."""
        found = self.test()
        return self.module.source(found).strip() if isinstance(found, cst.BaseExpression) else found

    def test(self) -> cst.BaseExpression | str | None:
        """The test of the ``if`` under which the optimizer is wrapped; None where it always is, empty if unclear."""
        inner: cst.CSTNode = self.site.target
        for holder in self.module.index.ancestors(self.site.target):
            if isinstance(holder, (cst.FunctionDef, cst.Module)):
                return None
            if isinstance(holder, cst.If) and inner is not holder.test and not is_main_guard(holder):
                return holder.test if inner is holder.body else ""
            if isinstance(holder, (cst.For, cst.While, cst.Try, cst.Match, cst.IfExp, cst.ExceptHandler)):
                return ""
            inner = holder
        return None

    def place(self) -> Site:
        """The broadcast of the model's parameters in the same block, which the wrap replaces; else the optimizer."""
        here = self.module.index.line(self.site.target)
        block = self.module.index.parent(here)
        for site in self.context.uses(BROADCAST):
            line = self.module.index.line(site.target) if site.module is self.module else None
            if line is not None and self.module.index.parent(line) is block and self.is_of_model(site):
                return site
        return self.site

    def is_of_model(self, site: Site) -> bool:
        try:
            arguments = site.arguments("params", "root_rank")
        except RefusalError:
            return False
        params = arguments.get("params")
        owner = params.func.value if isinstance(params, cst.Call) and isinstance(params.func, cst.Attribute) else None
        root = arguments.get("root_rank")
        same = owner is not None and self.model is not None and dotted_name(owner) == dotted_name(self.model)
        return same and site.is_discarded and (root is None or is_constant(root, "0"))

    def tracker(self, found: Uses) -> Tracker:
        assert self.model is not None
        name = dotted_name(self.model).rpartition(".")[2]
        home = self.site.scope.home(name) if isinstance(self.model, cst.Name) else None
        dropped = [*self.context.uses(WRAPPER), *self.context.uses(BROADCAST), *self.context.uses(BROADCAST_STATE)]
        return Tracker(self.module, name, home, self.wrap.target, tuple(site.target for site in dropped), found)

    def asked(self) -> Iterator[str]:
        """What the optimizer's arguments say."""
        if len(self.context.uses(WRAPPER)) > 1:
            yield "the program has several optimizers"
        if self.options.compression is not None:
            yield "gradients may travel as fp16, which DDP rounds differently"
        if len([site for site in self.context.uses(BROADCAST) if site.module is self.module]) > 1:
            yield "the parameters of more than one model are broadcast"
        if any(module.index.attributes["add_param_group"] for module in self.context.modules):
            yield "parameters are added to the optimizer"
        if any(_ADDED_PARAMETERS.search(module.text) for module in self.context.modules):
            yield "the optimizer's groups are written to"
        if self.context.uses("horovod.torch.join"):
            yield "ranks join at different times, which DDP takes for a rank that is missing"
        if self.options.accumulates or self.uses.accumulating:
            yield "gradients are accumulated over several backward passes"
        if self.options.dense or any(_SPARSE.search(module.text) for module in self.context.modules):
            yield "there are sparse gradients"
        if self.wrap is self.site and self.context.uses(BROADCAST):
            yield "the parameters are broadcast elsewhere"
        if self.updates_a_part():
            yield "the optimizer updates a part of the model only"
        if self.is_imported():
            yield "other files of the program import the model, or its module"

    def updates_a_part(self) -> bool:
        """Whether the optimizer is visibly given the parameters of something else than the model."""
        makers = [v for v in possible_values(self.options.optimizer, self.module) if isinstance(v, cst.Call)]
        owners = {owner for maker in makers if (owner := owner_of_parameters(maker, self.module)) is not None}
        return bool(owners) and owners != {dotted_name(self.model)}

    def is_imported(self) -> bool:
        """Whether another file of the program may get hold of a model at module level."""
        name = dotted_name(self.model).partition(".")[0] if self.model is not None else ""
        wanted = {name, PurePath(self.module.path).stem}
        others = [module for module in self.context.modules if module is not self.module]
        if isinstance(self.model, cst.Attribute):
            return any(module.index.attributes[self.model.attr.value] for module in others)
        symbols = (b.symbol for m in others for found in m.index.scope.bindings.values() for b in found)
        return any(symbol is not None and wanted & set(symbol.split(".")) for symbol in symbols)

    def freezes(self) -> bool:
        """Whether the module decides which parameters need a gradient."""
        index = self.module.index
        frozen = [n for n in index.attributes["requires_grad"] if isinstance(index.parent(n), cst.AssignTarget)]
        return bool(frozen or index.attributes["requires_grad_"])

    def surroundings(self) -> Iterator[str]:
        """What the rest of the module says."""
        if self.freezes():
            yield "parameters are frozen or unfrozen"
        if _SECOND_BACKWARD.search(self.module.text):
            yield "there may be more than one backward on one forward"
        if not self.uses.steps_in_sight:
            yield "the optimizer is handed on, so its steps are not all in sight"
        if self.uses.closures:
            yield "a closure computes the loss"

    def order(self, found: Uses) -> Iterator[str]:
        """Whether everything that must come before the wrap does."""
        index = self.module.index
        assert self.model is not None
        if found.late:
            yield "some ranks load weights after the place where the model would be wrapped"
        first = min((self.wrap.target, self.site.target), key=lambda node: index.order[id(node)])
        if isinstance(self.model, cst.Name):
            home = self.site.scope.home(self.model.value)
            bindings = home.bindings[self.model.value] if home else ()
            if any(index.before(first, binding.node) for binding in bindings if binding.kind != "parameter"):
                yield "the model is assigned again after its optimizer is wrapped"
        else:
            name = dotted_name(self.model).rpartition(".")[2]
            stores = [n for n in index.attributes[name] if isinstance(index.parent(n), cst.AssignTarget)]
            if not stores or any(index.scope_of(node) is not self.site.scope for node in stores):
                yield "the model is built in another method"

    def training(self, found: Uses) -> Iterator[str]:
        """Whether each training step is one forward, one backward, one step."""
        forwards = {id(call) for call in found.forwards}
        step = Step(lambda call: id(call) in forwards, _is_backward, self.uses.is_step)
        backwards = [self.module.index.parent(node) for node in self.module.index.attributes["backward"]]
        calls = [call for call in backwards if isinstance(call, cst.Call)]
        for call in calls:
            if reason := unclear_step(call, step, self.module):
                yield reason

    def doubts_about_model(self) -> Iterator[str]:
        """What the class of the model says, where it is in sight."""
        assert self.model is not None
        name = dotted_name(self.model).rpartition(".")[2]
        if isinstance(self.model, cst.Name):
            values = [binding.value for binding in self.site.scope.lookup(name)]
        else:
            stores = (self.module.index.parent(node) for node in self.module.index.attributes[name])
            assigns = (self.module.index.parent(s) for s in stores if isinstance(s, cst.AssignTarget))
            values = [a.value for a in assigns if isinstance(a, cst.Assign)]
        for value in values:
            yield from doubts_about_class(value, self.module)
        for module in self.context.modules:
            yield from doubts_about_layers(module)


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


def _is_backward(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"


def _ddp_branch(site: Site) -> cst.CSTNode | None:
    """The statement under which the optimizer is wrapped, in a file that wraps a model with DDP itself."""
    module = site.module
    for name in ("DistributedDataParallel", "DDP"):
        named = [r.node for r in module.index.references[name]] + list(module.index.attributes[name])
        for node in named:
            call = module.index.parent(node)
            if isinstance(call, cst.Call) and symbol_of(node, module).endswith("DistributedDataParallel"):
                holders = module.index.ancestors(site.target)
                return next((h for h in holders if isinstance(h, cst.If)), site.target)
    return None


def _unwrap_site(node: cst.BaseExpression, origin: Site) -> Site:
    return Site(UNWRAP, node, None, origin.module, _scope(node, origin), origin.home)


def _scope(node: cst.BaseExpression, origin: Site) -> Scope:
    return origin.module.index.scope_of(node)


def _next_steps(context: Context) -> Iterator[NextStep]:
    """How each program that joins the process group is started now."""
    if context.uses(RUNNER):
        return
    starting: Sequence[Site] = context.uses("horovod.torch.init")
    scripts = [module.path for module in context.modules if "__main__" in module.text] if starting else []
    for path in dict.fromkeys(scripts or [site.module.path for site in starting]):
        yield NextStep(f"torchrun --standalone --nproc-per-node=N {path}  (in place of horovodrun or mpirun -np N)")
