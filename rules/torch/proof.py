"""Whether wrapping the model in DDP can be shown right from the code, and what stands in the way where it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from migrator.api import Context, RefusalError, Site, cst, dotted_name

from ..guards import is_main_guard
from ..values import is_constant, possible_values, symbol_of
from .model_uses import Tracker, Uses, doubts_about_class, doubts_about_layers, model_of, owner_of_parameters
from .names import BROADCAST, BROADCAST_STATE, WRAPPER
from .optimizer_uses import OptimizerUses
from .options import Options
from .training_loop import Step, unclear_step

SPARSE = re.compile(r"\bsparse\s*=\s*True")
_ADDED_PARAMETERS = re.compile(r"\bparam_groups\b[^\r\n]*[\"']params[\"']")
SECOND_BACKWARD = re.compile(r"\b(retain_graph|create_graph|use_reentrant)\s*=\s*True|\bautograd\.grad\(")


class Proof:
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
        if ddp_branch(self.site) is not None:
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
        if self.options.dense or any(SPARSE.search(module.text) for module in self.context.modules):
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
        if SECOND_BACKWARD.search(self.module.text):
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


def _is_backward(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"


def ddp_branch(site: Site) -> cst.CSTNode | None:
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
