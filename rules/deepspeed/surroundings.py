"""What in a program an engine cannot do, or would do otherwise, whatever its loop looks like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from migrator.api import Context, Module, Site, cst, dotted_name

from ..torch.model_uses import WRAPPERS, Uses
from ..torch.names import WRAPPER
from ..torch.optimizer_uses import OptimizerUses
from ..torch.options import Options
from ..torch.proof import SECOND_BACKWARD, SPARSE, Proof
from ..values import possible_values, symbol_of
from .engine import Obstacle
from .model import Model

MIXED = "DeepSpeed has a mixed precision of its own, and ignores torch.autocast around the engine"
NAMES: Mapping[str, str] = {
    "GradScaler": MIXED,
    "autocast": MIXED,
    "scale_loss": "apex scales the loss: DeepSpeed has a mixed precision of its own",
    "clip_grad_value_": "an engine clips by the norm only",
    "add_param_group": "parameters are added to the optimizer, which an engine does not see",
    "grad": "gradients are read: an engine averages them in backward(), and has none after step()",
    "register_comm_hook": "gradients travel by a hook, which an engine has not",
}
DTYPES = ("half", "double", "bfloat16")


def modules_of(site: Site, context: Context) -> tuple[Module, ...]:
    """The modules that may train with the optimizer at ``site``: not those that wrap another."""
    others = {id(other.module) for other in context.uses(WRAPPER) if other.module is not site.module}
    return tuple(module for module in context.modules if id(module) not in others)


def surroundings(modules: Iterable[Module], model: Model | None) -> Iterator[Obstacle]:
    """Names in ``modules`` that an engine has no counterpart for."""
    for module in modules:
        for name, reason in NAMES.items():
            yield from (Obstacle(module, node, reason) for node in _named(name, module))
        for name in DTYPES:
            for node in module.index.attributes[name]:
                if model is not None and model.is_known(node.value, module):
                    yield Obstacle(module, node, f"an engine as it is configured here trains float32, not {name}()")


def _named(name: str, module: Module) -> Iterator[cst.CSTNode]:
    """Uses of ``name``: an attribute, or a name that is called."""
    yield from module.index.attributes[name]
    if name != "grad":
        yield from (reference.node for reference in module.index.references[name])


def reasons(site: Site, options: Options, proof: Proof, context: Context, uses: OptimizerUses) -> Iterator[str]:
    """What the optimizer's call, and the program as a whole, say against an engine."""
    modules = modules_of(site, context)
    here = [other for other in context.uses(WRAPPER) if other.module is site.module and not other.is_annotation]
    if context.settings.gradients not in ("auto", "scope"):
        yield f"--gradients {context.settings.gradients} is about another target"
    if len(here) > 1:
        yield "the program has several optimizers, and an engine has one"
    if options.sums:
        yield "the gradients are summed, and an engine averages them"
    if options.group is not None or context.uses("horovod.torch.ProcessSet"):
        yield "gradients are reduced within a process set"
    if options.dense or any(SPARSE.search(module.text) for module in modules):
        yield "there are sparse gradients"
    if options.compression is not None and not _is_fp16(options.compression, site.module):
        yield "gradients are compressed by something else than fp16"
    if context.uses("horovod.torch.join"):
        yield "ranks join at different times, and an engine waits for all of them"
    if any(other.symbol.startswith("horovod.torch.elastic") for other in context.sites):
        yield "the program is elastic"
    if reason := proof.cannot_wrap() or _about_model(proof):
        yield reason
        return
    if proof.updates_a_part():
        yield "the optimizer updates a part of the model only"
    if any(SECOND_BACKWARD.search(module.text) for module in modules):
        yield "there may be more than one backward on one forward"
    if not uses.steps_in_sight:
        yield "another optimizer steps too, or this one is handed on, so that its steps are not all in sight"
    yield from proof.order(Uses())


def _about_model(proof: Proof) -> str:
    """What the model is, where an engine cannot be made of it."""
    model = proof.model
    if isinstance(model, cst.Attribute) and dotted_name(model.value) != "self":
        return f"the model is {dotted_name(model)!r}, a part of something else"
    if isinstance(model, cst.Attribute) and _is_in_module(model, proof.module):
        return "the model is a part of a module, of which its engine would become another part"
    values = possible_values(model, proof.module) if model is not None else ()
    makers = {dotted_name(value.func).rpartition(".")[2] for value in values if isinstance(value, cst.Call)}
    return next((f"the model is wrapped by {name} already" for name in sorted(makers & WRAPPERS)), "")


def _is_fp16(node: cst.BaseExpression, module: Module) -> bool:
    values = (symbol_of(value, module) if value is not None else "" for value in possible_values(node, module))
    return {value.rpartition(".")[2] for value in values} <= {"fp16", "none"}


def _is_in_module(node: cst.CSTNode, module: Module) -> bool:
    """Whether the class around ``node`` is a network itself."""
    owner = next((holder for holder in module.index.ancestors(node) if isinstance(holder, cst.ClassDef)), None)
    bases = owner.bases if owner is not None else ()
    return any(dotted_name(base.value).rpartition(".")[2].endswith("Module") for base in bases)
