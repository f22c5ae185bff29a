"""HVD211 zero-grad: Horovod's ``zero_grad`` takes no argument, so programs call it in two ways.

Since PyTorch 2.0 ``zero_grad()`` sets gradients to None, as ``zero_grad(set_to_none=True)`` always did: the two
branches do the same now. Code that reads ``p.grad`` right afterwards must expect None. Nothing is changed.

Example:

```python
if use_horovod:
    optimizer.zero_grad()
else:
    optimizer.zero_grad(set_to_none=True)
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from migrator.api import Context, Finding, Module, Site, cst, dotted_name, planner, rule

ZERO_GRAD = "horovod.torch.DistributedOptimizer.zero_grad"


@planner
def plan_zero_grad(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find calls without an argument in a branch whose other branch calls with ``set_to_none``."""
    modules = context.modules if context.sites else ()
    return (), [site for module in modules for site in _branched(module)]


def _branched(module: Module) -> Iterator[Site]:
    calls = [(node, module.index.parent(node)) for node in module.index.attributes["zero_grad"]]
    plain = [(node, call) for node, call in calls if isinstance(call, cst.Call) and not call.args]
    told = [node for node, call in calls if isinstance(call, cst.Call) and call.args]
    for node, call in plain:
        same = (other for other in told if dotted_name(other.value) == dotted_name(node.value))
        if any(_are_branches(node, other, module) for other in same):
            yield Site(ZERO_GRAD, node, call, module, module.index.scope_of(node), module.index.scope)


def _are_branches(first: cst.CSTNode, second: cst.CSTNode, module: Module) -> bool:
    """Whether the two stand in different branches of one ``if``."""
    holders = {id(holder) for holder in module.index.ancestors(second)}
    shared = next((h for h in module.index.ancestors(first) if id(h) in holders), None)
    return isinstance(shared, cst.If)


@rule("HVD211", "zero-grad", symbols=[ZERO_GRAD])
def zero_grad(site: Site, context: Context) -> Finding:
    message = (
        "zero_grad() sets gradients to None since PyTorch 2.0, like zero_grad(set_to_none=True) in the other branch: "
        "code that reads p.grad right after it must expect None"
    )
    return site.found("note", message)
