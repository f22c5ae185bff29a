"""The training loops of a program, as the calls that an engine takes over.

What is looked for is the canonical loop: in one function, forwards by a call of the model, ``loss.backward()``,
``optimizer.step()``, and ``zero_grad()`` where it clears what the step has used. Clipping by the norm and accumulation
are understood; anything else is an obstacle.
"""

from __future__ import annotations

from collections.abc import Iterator

from migrator.api import Context, Module, RefusalError, Site, Template, cst, dotted_name

from ..torch.model_uses import Tracker, Uses
from ..torch.names import BROADCAST
from ..torch.optimizer_uses import OptimizerUses
from ..torch.options import Options
from ..torch.proof import Proof
from ..torch.training_loop import Step, unclear_step
from ..values import calls_within
from .clipping import Clip, clip_of, clipping_calls
from .engine import Engine, NotCanonicalError, Obstacle, Use
from .handing import handed_uses
from .loader import batch_size
from .model import Model, Parameter, function_of
from .names import BACKWARD, CLIP, FORWARD, STEP, ZERO_GRAD
from .surroundings import modules_of, reasons, surroundings
from .zeroing import follows, holds, is_needless, loop_around, precedes, zeroing_calls

NAMES = ("engine", "model_engine", "deepspeed_engine")
LOADS_BUFFERS = ("register_buffer", "spectral_norm", "load_state_dict")


class EngineProof(Proof):
    """What stands in the way of an engine for the model, beside what its loop looks like."""

    def is_bound_here(self, name: str) -> bool:
        """Whether the engine can stand beside the model; also where a module takes it from a place out of sight."""
        return super().is_bound_here(name) or (self.site.scope.kind == "module" and not self.site.scope.home(name))


def engine_of(site: Site, options: Options, context: Context, uses: OptimizerUses) -> tuple[Engine, EngineProof]:
    """How the model of the optimizer at ``site`` trains by an engine; raises NotCanonicalError."""
    proof = EngineProof(site, options, context, uses)
    obstacles = [Obstacle(site.module, site.target, reason) for reason in reasons(site, options, proof, context, uses)]
    node = proof.model
    if node is None or obstacles:
        raise NotCanonicalError((*obstacles, *surroundings(modules_of(site, context), None)))
    home = site.scope.home(node.value) if isinstance(node, cst.Name) else None
    model = Model(node, site.module, home)
    proof.wrap = _later(proof.place(), site)
    found = Training(model, proof, context, uses)
    found.search()
    obstacles = [*surroundings(found.modules, model), *found.obstacles]
    if obstacles:
        raise NotCanonicalError(tuple(obstacles))
    return found.engine(), proof


def _later(place: Site, site: Site) -> Site:
    """The later of the broadcast in the optimizer's block and the optimizer: by then both the model and it are made."""
    return place if site.module.index.before(site.target, place.target) else site


class Training:
    """What changes where the model trains, and the obstacles."""

    def __init__(self, model: Model, proof: Proof, context: Context, uses: OptimizerUses) -> None:
        self.model = model
        self.proof = proof
        self.context = context
        self.modules = modules_of(proof.site, context)
        self.optimizer_uses = uses
        self.wrap = proof.wrap
        self.engine_name = f"self.{self.free_name()}" if model.is_attribute else self.free_name()
        self.uses: list[Use] = []
        self.obstacles: list[Obstacle] = []
        self.engines: dict[int, str] = {}
        self.parameters: list[Parameter] = []
        self.backwards: list[tuple[Module, cst.Call]] = []
        self.clips: list[Clip | None] = []
        self.was_reduced = True
        self.stepped: set[int] = set()

    def free_name(self) -> str:
        """A name for the engine that no module of the program knows."""
        taken = {name for module in self.context.modules for name in module.index.names}
        taken |= {name for module in self.context.modules for name, found in module.index.attributes.items() if found}
        taken |= {name for module in self.context.modules for name, found in module.index.references.items() if found}
        return next(name for name in self.candidates() if name not in taken)

    def candidates(self) -> Iterator[str]:
        yield from NAMES
        yield from (f"engine_{number}" for number in range(2, 1000))

    def obstacle(self, module: Module, node: cst.CSTNode, reason: str) -> None:
        self.obstacles.append(Obstacle(module, node, reason))

    def search(self) -> None:
        """Look at every backward, and then at what belongs to it."""
        for module in self.modules:
            for attribute in module.index.attributes["backward"]:
                self.backward(attribute, module)
        steps = [(module, call) for module, call in self.optimizer_uses.steps if module in self.modules]
        scaled = [(module, call) for module, call in self.optimizer_uses.scaled if module in self.modules]
        for module, call in scaled:
            self.obstacle(module, call, "a gradient scaler takes the step: DeepSpeed scales losses by itself")
        if not steps and not scaled:
            self.obstacle(self.model.module, self.proof.site.target, "no step of the optimizer is in sight")
        for module, call in steps:
            self.step(call, module)
        self.clipping_elsewhere()
        for module, call in self.backwards:
            if id(call) not in self.stepped and not self.obstacles:
                self.obstacle(module, call, "the loss goes backward where no step of the optimizer follows")
        self.uses += handed_uses(self.model, self.engine_name, self.parameters, self.uses, self.obstacles, self.wrap)

    def backward(self, attribute: cst.Attribute, module: Module) -> None:
        call = module.index.parent(attribute)
        if not isinstance(call, cst.Call) or call.func is not attribute:
            self.obstacle(module, attribute, "backward is not called where it is named")
            return
        if call.args:
            self.obstacle(
                module, call, "backward() is given arguments, which an engine's has not, or has for ZeRO only"
            )
            return
        if not isinstance(module.index.parent(call), cst.Expr):
            self.obstacle(module, call, "what backward() returns is used")
            return
        engine = self.forwards(call, module)
        if engine is None:
            self.obstacle(module, call, "the loss is not computed by a call of the model in the same function")
            return
        self.backwards.append((module, call))
        self.uses.append(Use(BACKWARD, module, call, engine))

    def forwards(self, backward: cst.Call, module: Module) -> str | None:
        """What the engine is called in the function of ``backward``, whose forwards it takes; None without one."""
        function = function_of(backward, module)
        if id(function) in self.engines:
            return self.engines[id(function)]
        found: set[str] = set()
        for call in calls_within(function):
            if function_of(call, module) is not function or self.is_evaluation(call.func, module):
                continue
            name = self.engine_name
            if not self.model.is_variable(call.func, module):
                parameter = self.model.parameter(call.func, module)
                if parameter is None:
                    continue
                self.parameters.append(parameter)
                name = name.rpartition(".")[2]
            found.add(name)
            self.uses.append(Use(FORWARD, module, call.func, name))
            self.check_order(call, module)
        if len(found) != 1:
            return None
        self.engines[id(function)] = found.pop()
        return self.engines[id(function)]

    def is_evaluation(self, node: cst.BaseExpression, module: Module) -> bool:
        if not isinstance(node, (cst.Name, cst.Attribute)) or not self.model.is_known(node, module):
            return False
        name = dotted_name(node).rpartition(".")[2]
        return Tracker(module, name, None, self.wrap.target, (), Uses()).is_evaluation(node)

    def check_order(self, call: cst.Call, module: Module) -> None:
        """The engine must be made by the time that ``call`` runs."""
        wrapping, function = function_of(self.wrap.target, self.wrap.module), function_of(call, module)
        index = module.index
        early = [call] if function is wrapping else []
        if isinstance(function, cst.FunctionDef) and function is not wrapping:
            early = [
                other
                for reference in index.references[function.name.value]
                if isinstance(other := index.parent(reference.node), cst.Call)
            ]
        here = [c for c in early if function_of(c, module) is wrapping and module is self.wrap.module]
        if any(index.before(other, self.wrap.target) for other in here):
            self.obstacle(module, call, "the model runs before the place where its engine can be made")

    def step(self, call: cst.Call, module: Module) -> None:
        engine = self.engines.get(id(function_of(call, module)))
        if call.args:
            self.obstacle(module, call, "step() is given a closure, and an engine's takes none")
            return
        if engine is None:
            self.obstacle(module, call, "the optimizer steps in another function than the loss goes backward")
            return
        if not isinstance(module.index.parent(call), cst.Expr):
            self.obstacle(module, call, "what step() returns is used")
            return
        self.uses.append(Use(STEP, module, call, engine))
        loop = loop_around(call, module)
        backwards = [backward for m, backward in self.backwards if m is module and holds(loop, backward, module)]
        self.stepped |= {id(backward) for backward in backwards}
        self.zeroing(call, module, backwards, engine)
        self.clipping(call, module, engine)

    def zeroing(self, step: cst.Call, module: Module, backwards: list[cst.Call], engine: str) -> None:
        """The engine's step zeroes all gradients: that must have been done before the next backward anyway."""
        function = function_of(step, module)
        found = [c for c in zeroing_calls(module, step, self.model) if function_of(c, module) is function]
        after = [call for call in found if follows(call, step, backwards, module)]
        before = [call for call in found if precedes(call, step, backwards, module)]
        if not after and not before:
            reason = "it cannot be told that gradients are set to zero after each step, as an engine's step does"
            self.obstacle(module, step, reason)
        for call in (*after, *(call for call in before if is_needless(call, step, module))):
            if isinstance(module.index.parent(call), cst.Expr):
                self.uses.append(Use(ZERO_GRAD, module, call, engine))

    def clipping(self, step: cst.Call, module: Module, engine: str) -> None:
        loop, function = loop_around(step, module), function_of(step, module)
        calls = [c for c in clipping_calls(module) if holds(loop, c, module) and function_of(c, module) is function]
        if len(calls) > 1:
            self.obstacle(module, calls[1], "gradients are clipped more than once for a step")
        elif calls:
            try:
                self.clips.append(clip_of(calls[0], module, step, self.model, self.wrap))
            except RefusalError as refusal:
                self.obstacle(module, calls[0], str(refusal))
                return
            self.was_reduced &= self.optimizer_uses.follows_synchronize(module, step)
            self.uses.append(Use(CLIP, module, calls[0], engine))
        else:
            self.clips.append(None)
        if len({clip.norm.text if clip is not None else "" for clip in self.clips}) > 1:
            self.obstacle(module, step, "gradients are clipped differently before this step than before others")

    def clipping_elsewhere(self) -> None:
        known = {id(use.node) for use in self.uses if use.symbol == CLIP} | {id(o.node) for o in self.obstacles}
        for module in self.modules:
            for call in clipping_calls(module):
                if id(call) not in known:
                    self.obstacle(module, call, "gradients are clipped in another function than the optimizer steps")

    def engine(self) -> Engine:
        """What was found; to be asked for where there are no obstacles."""
        site = self.proof.site
        assert site.assigned_to is not None
        clip = next((clip for clip in self.clips if clip is not None), None)
        name = self.engine_name
        root = dotted_name(self.model.node).partition(".")[0]
        return Engine(
            name=name,
            wrap=self.wrap,
            optimizer=site.assigned_to,
            uses=tuple({id(use.node): use for use in self.uses}.values()),
            clipping=clip.norm if clip is not None else None,
            was_reduced=self.was_reduced,
            batch_size=self.batch_size(),
            accumulates=self.accumulates(),
            keeps_broadcast=bool(self.context.uses(BROADCAST)) and self.loads_buffers(),
            is_global=site.scope.declared.get(root) == "global",
        )

    def batch_size(self) -> Template | None:
        sizes = (batch_size(call, module, self.wrap) for module, call in self.backwards)
        return next((size for size in sizes if size is not None), None)

    def accumulates(self) -> bool:
        """Whether any path has more, or fewer, than one step to a backward."""
        own = {id(call) for _, call in self.backwards}

        def is_backward(call: cst.Call) -> bool:
            return id(call) in own

        step = Step(is_backward, is_backward, self.optimizer_uses.is_step)
        return any(unclear_step(call, step, module) for module, call in self.backwards)

    def loads_buffers(self) -> bool:
        """Whether buffers may differ between ranks, which DeepSpeed does not broadcast."""
        optimizers = self.optimizer_uses.names
        for module in self.modules:
            for name in LOADS_BUFFERS:
                named = [node for node in module.index.attributes[name] if not _is_of_optimizer(node, optimizers)]
                if named or module.index.references[name]:
                    return True
        return False


def _is_of_optimizer(node: cst.Attribute, optimizers: frozenset[str]) -> bool:
    name = dotted_name(node.value).rpartition(".")[2]
    return name in optimizers or "optim" in name.lower() or "sched" in name.lower()
