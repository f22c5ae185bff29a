"""HVD401 sampler-epoch: a DistributedSampler that is never told the epoch.

``DistributedSampler`` shuffles by seed and epoch: without ``set_epoch`` every epoch sees the same order. The program
did that under Horovod too, so nothing is changed.

Example:

```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
```
"""

from __future__ import annotations

from collections.abc import Iterable

from migrator.api import Context, Finding, Module, Site, cst, dotted_name, planner, rule

from ..values import is_constant, symbol_of

SAMPLER = "torch.utils.data.distributed.DistributedSampler"


@planner
def plan_samplers(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the samplers that shuffle and are never told the epoch."""
    if not context.sites:
        return (), ()
    return (), [site for module in context.modules for site in _samplers(module)]


def _samplers(module: Module) -> Iterable[Site]:
    nodes = [
        *module.index.attributes["DistributedSampler"],
        *(r.node for r in module.index.references["DistributedSampler"]),
    ]
    told = {dotted_name(node.value).rpartition(".")[2] for node in module.index.attributes["set_epoch"]}
    for node in nodes:
        call = module.index.parent(node)
        if isinstance(call, cst.Call) and call.func is node and symbol_of(node, module).startswith("torch.utils.data"):
            site = Site(SAMPLER, node, call, module, module.index.scope_of(call), module.index.scope)
            target = site.assigned_to
            shuffles = not any(
                a.keyword and a.keyword.value == "shuffle" and is_constant(a.value, "False") for a in call.args
            )
            if target is not None and shuffles and dotted_name(target).rpartition(".")[2] not in told:
                yield site


@rule("HVD401", "sampler-epoch", symbols=[SAMPLER])
def sampler_epoch(site: Site, context: Context) -> Finding:
    message = (
        "the sampler is not told the epoch in this file (set_epoch): every epoch then has the same order, as before"
    )
    return site.found("review", message)
