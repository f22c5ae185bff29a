"""HVD203 unwrap-module: what needs the model itself goes through ``.module`` once DDP is around it.

``state_dict`` and ``load_state_dict`` keep their keys, so old checkpoints load and new ones are like the old;
attributes are the model's. A forward that only some ranks run must not go through the wrapper: it can wait for the
others for ever. An evaluation does not either: each rank runs it at its own pace and with its own buffers, as under
Horovod.

Example:

```python
if hvd.rank() == 0:
    torch.save(model.state_dict(), path)
```

Use instead:

```python
if dist.get_rank() == 0:
    torch.save(model.module.state_dict(), path)
```
"""

from migrator.api import Context, Finding, Replace, Site, cst, expression, rule

from ..guards import runs_on_some_ranks
from .names import UNWRAP


@rule("HVD203", "unwrap-module", symbols=[UNWRAP])
def unwrap_module(site: Site, context: Context) -> Finding:
    edits = [Replace(site.node, expression("{model}.module", model=site.node))]
    holder = site.module.index.parent(site.node)
    if isinstance(holder, cst.Call) and holder.func is site.node:
        if runs_on_some_ranks(site.node, site.module):
            message = "a forward that only some ranks run goes to .module: through DDP it could wait for ever"
            return site.found("review", message, edits)
        message = "an evaluation goes to .module: each rank at its own pace, with its own buffers, as under Horovod"
        return site.found("exact", message, edits)
    return site.found("exact", "the model itself is DDP's .module", edits)
