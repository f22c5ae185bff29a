"""HVD103 rank-and-size: rank and number of ranks come from the process group.

``hvd.rank`` and ``hvd.size`` raise before ``init``; so do ``dist.get_rank`` and ``dist.get_world_size``. Arithmetic
with them, such as a learning rate that grows with the number of ranks, stays as it is written.

Example:

```python
if hvd.rank() == 0:
    print(hvd.size())
```

Use instead:

```python
if dist.get_rank() == 0:
    print(dist.get_world_size())
```
"""

from migrator.api import Context, Finding, RefusalError, Site, expression, rule

from .names import DIST

FUNCTIONS = {
    "horovod.torch.rank": "dist.get_rank",
    "horovod.torch.size": "dist.get_world_size",
    "horovod.torch.is_initialized": "dist.is_initialized",
}


@rule("HVD103", "rank-and-size", symbols=list(FUNCTIONS))
def rank_and_size(site: Site, context: Context) -> Finding:
    function = FUNCTIONS[site.symbol]
    if site.call is None:
        return site.replace(expression(function), imports=[DIST])
    if site.call.args:
        raise RefusalError(f"{site.short} takes no arguments")
    return site.replace(expression(f"{function}()"), imports=[DIST])
