"""HVD104 local-rank: the rank on this host comes from the launcher.

Horovod asks its controller; torchrun and TorchDistributor export LOCAL_RANK and LOCAL_WORLD_SIZE. Without a launcher the
program runs alone, as local rank 0 of 1. Under TorchDistributor on a cluster every Spark task is a host of its own to
torchrun: there the number is right as the index of the device, and 0 on every rank.

Example:

```python
torch.cuda.set_device(hvd.local_rank())
```

Use instead:

```python
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
```
"""

from migrator.api import Context, Finding, Refusal, Site, expression, rule
from .names import OS

VALUES = {
    "horovod.torch.local_rank": 'int(os.environ.get("LOCAL_RANK", 0))',
    "horovod.torch.local_size": 'int(os.environ.get("LOCAL_WORLD_SIZE", 1))',
}


@rule("HVD104", "local-rank", symbols=list(VALUES))
def local_rank(site: Site, context: Context) -> Finding:
    if site.call is None:
        return site.replace(expression(f"lambda: {VALUES[site.symbol]}"), imports=[OS])
    if site.call.args:
        raise Refusal(f"{site.short} takes no arguments")
    return site.replace(expression(VALUES[site.symbol]), imports=[OS])
