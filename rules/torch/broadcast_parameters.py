"""HVD204 broadcast-parameters: all ranks start from the same weights.

DDP's constructor broadcasts the weights and buffers of rank 0, so the wrap takes the place of the broadcast, after
the last load of weights. Where gradients are averaged at the optimizer, a small function broadcasts the tensors.

Example:

```python
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
```

Use instead:

```python
model = DDP(model)
```
"""

from migrator.api import Context, Finding, RefusalError, Remove, Replace, Site, cst, dotted_name, expression, rule

from ..values import is_constant
from .names import BROADCAST, DDP
from .plan import Plan


@rule("HVD204", "broadcast-parameters", symbols=[BROADCAST])
def broadcast_parameters(site: Site, context: Context) -> Finding:
    arguments = site.arguments("params", "root_rank")
    if "params" not in arguments:
        raise RefusalError("the call does not say what it broadcasts")
    for plan in context.plan(Plan):
        if (
            plan.engine is not None
            and not plan.engine.keeps_broadcast
            and _is_of(plan.model, arguments["params"], site)
        ):
            message = "broadcast_parameters goes: deepspeed.initialize broadcasts rank 0's parameters"
            assert site.statement is not None
            return site.found("exact", message, [Remove(site.statement)])
        if plan.wrap is site and plan.strategy == "ddp" and plan.model is not None:
            new = expression("{model} = DDP({model})", model=plan.model)
            message = "broadcast_parameters → DDP, whose constructor broadcasts rank 0's weights"
            assert site.statement is not None
            return site.found("exact", message, [Replace(site.statement, new)], imports=[DDP])
    root = arguments.get("root_rank")
    if root is None or is_constant(root, "0"):
        new = expression("broadcast_parameters({params})", params=arguments["params"])
    else:
        new = expression("broadcast_parameters({params}, {root})", params=arguments["params"], root=root)
    return site.replace(new, helpers=["broadcast_parameters"])


def _is_of(model: cst.BaseExpression | None, params: cst.BaseExpression, site: Site) -> bool:
    """Whether the site broadcasts what ``model`` holds, from rank 0, and does nothing else."""
    owner = params.func.value if isinstance(params, cst.Call) and isinstance(params.func, cst.Attribute) else None
    root = site.arguments("params", "root_rank").get("root_rank")
    same = owner is not None and dotted_name(owner) == dotted_name(model)
    return same and site.is_discarded and (root is None or is_constant(root, "0"))
