"""Where gradients are set to zero, and whether the engine's step, which does so too, makes that needless."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrator.api import Module, children_of, cst, dotted_name

from ..torch.optimizer_uses import block_of
from .model import Model

LEAVES = (cst.Continue, cst.Break, cst.Return, cst.Raise, cst.Try, cst.Yield)


def loop_around(node: cst.CSTNode, module: Module) -> cst.CSTNode:
    """The innermost loop around ``node``, or the function or module without one."""
    kinds = (cst.For, cst.While, cst.FunctionDef)
    return next((holder for holder in module.index.ancestors(node) if isinstance(holder, kinds)), module.index.tree)


def zeroing_calls(module: Module, step: cst.Call, model: Model) -> Iterator[cst.Call]:
    """The calls that zero the gradients of the optimizer of ``step``, or of the model."""
    optimizer = dotted_name(step.func).rpartition(".")[0]
    for node in module.index.attributes["zero_grad"]:
        call = module.index.parent(node)
        is_ours = dotted_name(node.value) == optimizer or model.is_known(node.value, module)
        if is_ours and isinstance(call, cst.Call) and call.func is node:
            yield call


def follows(call: cst.Call, step: cst.Call, backwards: Sequence[cst.Call], module: Module) -> bool:
    """Whether ``call`` zeroes right after ``step`` what that has used, before any other backward."""
    index = module.index
    if block_of(module, call) is not block_of(module, step) or index.before(call, step):
        return False
    return not any(index.before(step, b) and index.before(b, call) for b in backwards)


def precedes(call: cst.Call, step: cst.Call, backwards: Sequence[cst.Call], module: Module) -> bool:
    """Whether ``call`` zeroes before every backward that ``step`` uses: at the start of the block that holds them."""
    index, block = module.index, block_of(module, call)
    if not holds(block, step, module) or not backwards:
        return False
    return all(holds(block, b, module) and index.before(call, b) and index.before(b, step) for b in backwards)


def is_needless(call: cst.Call, step: cst.Call, module: Module) -> bool:
    """Whether nothing leaves the block of ``call`` between it and ``step``, which stands in the same block."""
    index = module.index
    if block_of(module, call) is not block_of(module, step) or not isinstance(index.parent(call), cst.Expr):
        return False
    block = block_of(module, call)
    return not any(
        index.before(call, leave) and index.before(leave, step) for leave in _leaves(block) if block is not None
    )


def _leaves(node: cst.CSTNode | None) -> Iterator[cst.CSTNode]:
    for child in children_of(node) if node is not None else ():
        if isinstance(child, LEAVES):
            yield child
        if not isinstance(child, (cst.FunctionDef, cst.Lambda)):
            yield from _leaves(child)


def holds(block: cst.CSTNode | None, node: cst.CSTNode, module: Module) -> bool:
    """Whether ``node`` stands in ``block``."""
    return any(holder is block for holder in module.index.ancestors(node))
