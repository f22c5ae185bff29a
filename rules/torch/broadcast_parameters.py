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

from migrator.api import Context, Finding, RefusalError, Replace, Site, expression, rule

from ..values import is_constant
from .names import BROADCAST, DDP
from .plan import Plan


@rule("HVD204", "broadcast-parameters", symbols=[BROADCAST])
def broadcast_parameters(site: Site, context: Context) -> Finding:
    arguments = site.arguments("params", "root_rank")
    if "params" not in arguments:
        raise RefusalError("the call does not say what it broadcasts")
    for plan in context.plan(Plan):
        if plan.wrap is site and plan.model is not None:
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
