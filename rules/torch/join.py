"""HVD306 join: ranks that have run out of data wait for the others.

Under Horovod a rank that has joined answers every reduction with zeros, and still counts in the divisor, until all have
joined; its own weights stay. ``torch.distributed`` waits for a rank that does not call. Where gradients are averaged at
the optimizer, each reduction is therefore preceded by a small one that counts the ranks that still train, and ``join``
takes part in both until there are none. A barrier in its place would hang where the numbers of batches differ.

Nothing but the optimizer's reductions may run while some ranks have joined, and DDP has no part for such ranks:
anything else blocks. ``--gradients optimizer`` averages at the optimizer.

Example:

```python
for batch in loader:
    train_on(batch)
last = hvd.join()
```

Use instead:

```python
for batch in loader:
    train_on(batch)
last = join(optimizer)
```
"""

from __future__ import annotations

from collections.abc import Mapping

from migrator.api import Context, Finding, Helper, RefusalError, Site, cst, dotted_name, expression, rule

from ..guards import MAX_DEPTH, calls_of
from .names import BROADCAST, BROADCAST_STATE
from .plan import Plan

COLLECTIVE = ("reduce", "gather", "broadcast", "alltoall", "scatter", "barrier")
ONCE = (BROADCAST, BROADCAST_STATE)
Loops = Mapping[int, frozenset[int]]


@rule("HVD306", "join", symbols=["horovod.torch.join"])
def join(site: Site, context: Context) -> Finding:
    site.arguments("device")
    plan = _plan(context)
    optimizer = plan.site.assigned_to
    assert optimizer is not None
    if not _is_known(dotted_name(optimizer), site, plan.site):
        raise RefusalError(f"{dotted_name(optimizer)!r}, whose reductions are answered, is not known here: pass it on")
    spine = _spine(site)
    for other in context.sites:
        if any(word in other.short for word in COLLECTIVE) and not _is_in_step(other, other.target, spine, site):
            line = " ".join(other.module.source(other.target).split())
            raise RefusalError(f"{line} may run while some ranks have joined: move it out of the loop, behind the join")
    message = (
        f"join → join({dotted_name(optimizer)}): until all ranks have joined, it answers their reductions with zeros, "
        "as Horovod; each reduction is preceded by a small one that counts the ranks that still train"
    )
    helpers = [Helper("reduce_gradients", plan.options.helper(plan.sparse).features | {"join"}), Helper("join")]
    return site.replace(
        expression(f"join({dotted_name(optimizer)})"), class_="review", message=message, helpers=helpers
    )


def _plan(context: Context) -> Plan:
    """The one optimizer whose reductions can be answered."""
    plans = list(context.plan(Plan))
    if len(plans) != 1 or plans[0].site.assigned_to is None:
        raise RefusalError(
            "ranks that have joined answer the others' reductions with zeros, and which optimizer reduces is not in "
            "sight: give all ranks the same number of batches and take the call out"
        )
    plan = plans[0]
    if plan.strategy == "ddp":
        raise RefusalError("DDP has no part for ranks that have joined: choose --gradients optimizer")
    if plan.options.compression is not None or (plan.sparse and not plan.options.dense):
        raise RefusalError(
            "what joined ranks answer is not known where gradients are compressed or sparse: give all ranks the same "
            "number of batches and take the call out"
        )
    return plan


def _is_known(optimizer: str, site: Site, wrapped: Site) -> bool:
    """Whether the name that the optimizer has where it is wrapped means it at ``site`` too."""
    root = optimizer.partition(".")[0]
    if root == "self":
        return site.module is wrapped.module and _class(site) is _class(wrapped)
    return bool(site.scope.lookup(root))


def _class(site: Site) -> cst.CSTNode | None:
    return next((h for h in site.module.index.ancestors(site.target) if isinstance(h, cst.ClassDef)), None)


def _spine(site: Site) -> Loops:
    """The functions on the way to ``site``, with the loops around it there: all ranks go through them in step."""
    found: dict[int, frozenset[int]] = {}
    node: cst.CSTNode | None = site.target
    for _ in range(MAX_DEPTH):
        if node is None:
            break
        function = _function(node, site)
        found[id(function)] = _loops(node, site)
        calls = list(calls_of(function, site.module)) if isinstance(function, cst.FunctionDef) else []
        node = calls[0] if len(calls) == 1 else None
    return found


def _is_in_step(other: Site, node: cst.CSTNode, spine: Loops, site: Site, depth: int = 0) -> bool:
    """Whether all ranks run ``node`` between two joins, and none in a loop whose length may differ between ranks."""
    if other.module is not site.module:
        return other.symbol in ONCE
    function = _function(node, site)
    loops = _loops(node, site)
    if id(function) in spine:
        return loops <= spine[id(function)]
    if loops or not isinstance(function, cst.FunctionDef) or depth > MAX_DEPTH:
        return False
    calls = list(calls_of(function, site.module))
    return bool(calls) and all(_is_in_step(other, call, spine, site, depth + 1) for call in calls)


def _function(node: cst.CSTNode, site: Site) -> cst.CSTNode:
    kinds = (cst.FunctionDef, cst.Lambda, cst.Module)
    return next(holder for holder in site.module.index.ancestors(node) if isinstance(holder, kinds))


def _loops(node: cst.CSTNode, site: Site) -> frozenset[int]:
    """The loops around ``node`` in its function."""
    function = _function(node, site)
    found: set[int] = set()
    for holder in site.module.index.ancestors(node):
        if holder is function:
            break
        if isinstance(holder, (cst.For, cst.While, cst.BaseComp)):
            found.add(id(holder))
    return frozenset(found)
