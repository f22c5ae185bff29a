"""HVD107 cross-rank: the number of this host comes from the launcher.

Horovod counts hosts; torchrun counts its agents, one to a host as it is usually started, and exports GROUP_RANK and
GROUP_WORLD_SIZE, as the launcher of TensorFlow workers does. Without a launcher there is one. Under TorchDistributor
on a cluster every Spark task is an agent of its own. Ray Train exports NODE_RANK, and not how many nodes there are.

Example:

```python
if hvd.cross_rank() == 0:
    download()
```

Use instead:

```python
if int(os.environ.get("GROUP_RANK", 0)) == 0:
    download()
```
"""

from migrator.api import Context, Finding, RefusalError, Site, expression, rule

from ..ray.names import is_started_by_ray
from ..torch.names import OS

VALUES = {
    "cross_rank": 'int(os.environ.get("GROUP_RANK", 0))',
    "cross_size": 'int(os.environ.get("GROUP_WORLD_SIZE", 1))',
}
SYMBOLS = [f"horovod.{library}.{name}" for library in ("tensorflow", "torch") for name in VALUES]


@rule("HVD107", "cross-rank", symbols=SYMBOLS)
def cross_rank(site: Site, context: Context) -> Finding:
    value = VALUES[site.short]
    if site.call is not None and site.call.args:
        raise RefusalError(f"{site.short} takes no arguments")
    if is_started_by_ray(context):
        if site.short == "cross_size":
            raise RefusalError("Ray Train does not say how many hosts there are: divide dist.get_world_size() yourself")
        value = 'int(os.environ.get("NODE_RANK", 0))'
    new = value if site.call is not None else f"lambda: {value}"
    what = "Ray's nodes" if is_started_by_ray(context) else "the launcher's agents: one to a host, as a rule"
    message = f"{site.short} → {value}, which counts {what}"
    return site.replace(expression(new), class_="review", message=message, imports=[OS])
