"""Where gradients are clipped before a step, and to what norm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from migrator.api import Module, RefusalError, Site, Template, cst, dotted_name

from ..torch.optimizer_uses import block_of
from ..values import is_constant
from .model import Model
from .visible import at_wrap

NORM = ("clip_grad_norm_", "clip_grad_norm")
PARAMETERS = ("parameters", "max_norm", "norm_type", "error_if_nonfinite", "foreach")


@dataclass(frozen=True, eq=False)
class Clip:
    """One call that clips, and the norm as code that can stand where the engine is made."""

    module: Module
    call: cst.Call
    norm: Template


def clipping_calls(module: Module) -> Iterator[cst.Call]:
    """The calls of ``module`` that clip gradients by their norm."""
    for name in NORM:
        for node in (*(r.node for r in module.index.references[name]), *module.index.attributes[name]):
            call = module.index.parent(node)
            if isinstance(call, cst.Call) and call.func is node:
                yield call


def clip_of(call: cst.Call, module: Module, step: cst.Call, model: Model, wrap: Site) -> Clip:
    """What ``call`` clips before ``step``; raises RefusalError where an engine would clip otherwise."""
    arguments = _arguments(call)
    if not isinstance(module.index.parent(call), cst.Expr):
        raise RefusalError("the norm that clipping returns is used, and an engine does not return it")
    if "norm_type" in arguments and not any(is_constant(arguments["norm_type"], two) for two in ("2", "2.0", "2.")):
        raise RefusalError("an engine clips by the 2-norm only")
    if "error_if_nonfinite" in arguments and not is_constant(arguments["error_if_nonfinite"], "False"):
        raise RefusalError("an engine does not raise an error for a norm that is not finite")
    if not _is_whole(arguments.get("parameters"), model, module):
        raise RefusalError("an engine clips all gradients of its model together, and here others may be clipped")
    if "max_norm" not in arguments:
        raise RefusalError("the call does not say to which norm it clips")
    norm = at_wrap(arguments["max_norm"], module, wrap)
    if norm is None:
        raise RefusalError("the norm that gradients are clipped to is not known where the engine is made")
    return Clip(module, call, _where(call, module, step, arguments["max_norm"], norm))


def _arguments(call: cst.Call) -> Mapping[str, cst.BaseExpression]:
    if any(argument.star for argument in call.args):
        raise RefusalError("the arguments of the clipping cannot be determined from the code")
    names = zip(call.args, PARAMETERS, strict=False)
    return {a.keyword.value if a.keyword is not None else name: a.value for a, name in names}


def _is_whole(node: cst.BaseExpression | None, model: Model, module: Module) -> bool:
    """Whether ``node`` is all parameters of the model, or those of them that need a gradient."""
    if isinstance(node, cst.Call) and dotted_name(node.func) in ("filter", "list") and node.args:
        return _is_whole(node.args[-1].value, model, module)
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    return node.func.attr.value == "parameters" and model.is_known(node.func.value, module)


def _where(call: cst.Call, module: Module, step: cst.Call, limit: cst.BaseExpression, norm: Template) -> Template:
    """The norm, under the condition under which the gradients are clipped; raises RefusalError for any other."""
    index = module.index
    if block_of(module, call) is block_of(module, step) and index.before(call, step):
        return norm
    block = block_of(module, call)
    condition = block if block is None or isinstance(block, cst.If) else index.parent(block)
    is_before = isinstance(condition, cst.If) and index.before(call, step) and condition.orelse is None
    if not is_before or not isinstance(condition, cst.If) or block_of(module, condition) is not block_of(module, step):
        raise RefusalError("gradients are clipped at other times than the optimizer steps")
    if not _asks_for(condition.test, limit):
        raise RefusalError("gradients are clipped under a condition that is not about the norm")
    return Template(f"{norm.text} or 0.0")


def _asks_for(test: cst.BaseExpression, limit: cst.BaseExpression) -> bool:
    """Whether ``test`` is whether there is a norm: ``norm``, ``norm > 0``, ``norm is not None``."""
    name = dotted_name(limit)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        target = test.comparisons[0]
        none = isinstance(target.operator, cst.IsNot) and is_constant(target.comparator, "None")
        positive = isinstance(target.operator, cst.GreaterThan) and any(
            is_constant(target.comparator, zero) for zero in ("0", "0.0", "0.")
        )
        return (none or positive) and bool(name) and dotted_name(test.left) == name
    return bool(name) and dotted_name(test) == name
