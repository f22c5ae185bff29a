"""HVD303 broadcast: one rank's tensor or object on all ranks.

``hvd.broadcast`` returns a new tensor, ``dist.broadcast`` fills the one it is given; ``hvd.broadcast_object``
returns the object, ``dist.broadcast_object_list`` fills a list. Small functions bridge that. Where a tensor may need
a gradient it has Horovod's: the mean of the ranks' gradients on the sending rank, zero elsewhere.

Example:

```python
epoch = hvd.broadcast(torch.tensor(epoch), root_rank=0, name="epoch").item()
```

Use instead:

```python
epoch = broadcast(torch.tensor(epoch), 0).item()
```
"""

from migrator.api import Context, Finding, RefusalError, Site, expression, rule

from .gradient_free import is_gradient_free
from .names import DIST
from .values import is_constant


@rule("HVD303", "broadcast", symbols=["horovod.torch.broadcast"])
def broadcast(site: Site, context: Context) -> Finding:
    arguments = site.arguments("tensor", "root_rank", "name", "process_set")
    if "process_set" in arguments or not {"tensor", "root_rank"} <= set(arguments):
        raise RefusalError("the tensor is broadcast within a process set, or the root is not given")
    tensor, root = arguments["tensor"], arguments["root_rank"]
    if is_gradient_free(site, tensor):
        return site.replace(expression("broadcast({tensor}, {root})", tensor=tensor, root=root), helpers=["broadcast"])
    new = expression("BroadcastOverRanks.apply({tensor}, {root})", tensor=tensor, root=root)
    return site.replace(new, helpers=["broadcast_over_ranks"])


@rule("HVD303", "broadcast", symbols=["horovod.torch.broadcast_"])
def broadcast_in_place(site: Site, context: Context) -> Finding:
    arguments = site.arguments("tensor", "root_rank", "name", "process_set")
    if not site.is_discarded or "process_set" in arguments or not {"tensor", "root_rank"} <= set(arguments):
        raise RefusalError("the value of broadcast_ is used, or it is for a process set")
    new = expression("dist.broadcast({tensor}, {root})", tensor=arguments["tensor"], root=arguments["root_rank"])
    return site.replace(new, imports=[DIST])


@rule("HVD303", "broadcast", symbols=["horovod.torch.broadcast_object"])
def broadcast_object(site: Site, context: Context) -> Finding:
    arguments = site.arguments("obj", "root_rank", "name", "process_set")
    if "process_set" in arguments:
        raise RefusalError("the object is broadcast within a process set")
    if "obj" not in arguments:
        raise RefusalError("the call does not say what it broadcasts")
    root = arguments.get("root_rank")
    if root is None or is_constant(root, "0"):
        return site.replace(
            expression("broadcast_object({value})", value=arguments["obj"]), helpers=["broadcast_object"]
        )
    new = expression("broadcast_object({value}, {root})", value=arguments["obj"], root=root)
    return site.replace(new, helpers=["broadcast_object"])
