"""HVD104 local-rank: the rank on this host comes from the launcher.

Horovod asks its controller; torchrun and TorchDistributor export LOCAL_RANK and LOCAL_WORLD_SIZE. Without a launcher
the program runs alone, as local rank 0 of 1. Under TorchDistributor on a cluster every Spark task is a host of its
own to torchrun: there the number is right as the index of the device, and 0 on every rank.

Example:

```python
torch.cuda.set_device(hvd.local_rank())
```

Use instead:

```python
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
```
"""

from migrator.api import Context, Finding, RefusalError, Site, cst, dotted_name, expression, rule

from .names import OS

VALUES = {
    "horovod.torch.local_rank": 'int(os.environ.get("LOCAL_RANK", 0))',
    "horovod.torch.local_size": 'int(os.environ.get("LOCAL_WORLD_SIZE", 1))',
}


DEVICES = ("set_device", "device", "cuda", "to")


@rule("HVD104", "local-rank", symbols=list(VALUES))
def local_rank(site: Site, context: Context) -> Finding:
    value = VALUES[site.symbol]
    if site.call is None:
        return site.replace(expression(f"lambda: {value}"), imports=[OS])
    if site.call.args:
        raise RefusalError(f"{site.short} takes no arguments")
    if context.uses("sparkdl.HorovodRunner") and not _is_device(site):
        message = f"{site.short} → {value}: in a Spark job every task is a host of its own, so all ranks have the same"
        return site.replace(expression(value), class_="review", message=message, imports=[OS])
    return site.replace(expression(value), imports=[OS])


def _is_device(site: Site) -> bool:
    """Whether the number is handed to something that takes the index of a device."""
    argument = site.module.index.parent(site.target)
    call = site.module.index.parent(argument) if isinstance(argument, cst.Arg) else None
    return isinstance(call, cst.Call) and dotted_name(call.func).rpartition(".")[2] in DEVICES
