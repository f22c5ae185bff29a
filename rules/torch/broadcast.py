"""HVD303 broadcast: one rank's tensor or object on all ranks.

``hvd.broadcast`` returns a new tensor, ``dist.broadcast`` fills the one it is given; ``hvd.broadcast_object``
returns the object, ``dist.broadcast_object_list`` fills a list. Small functions bridge that. Where a tensor may need
a gradient it has Horovod's: the mean of the ranks' gradients on the sending rank, zero elsewhere. The root is a rank of
the whole program in both, within a process set too.

Example:

```python
epoch = hvd.broadcast(torch.tensor(epoch), root_rank=0, name="epoch").item()
```

Use instead:

```python
epoch = broadcast(torch.tensor(epoch), 0).item()
```
"""

from migrator.api import Context, Finding, Helper, RefusalError, Site, rule

from ..values import is_constant
from .allgather import group_argument
from .gradient_free import detached, is_gradient_free
from .reduction import Arguments, rewritten

PARAMETERS = ("tensor", "root_rank", "name", "process_set")


@rule("HVD303", "broadcast", symbols=["horovod.torch.broadcast"])
def broadcast(site: Site, context: Context) -> Finding:
    arguments = rooted(site)
    group, features = group_argument(site, arguments)
    if is_gradient_free(site, arguments["tensor"]):
        code, helper = f"broadcast({{tensor}}, {{root_rank}}{group})", "broadcast"
    else:
        code, helper = f"BroadcastOverRanks.apply({{tensor}}, {{root_rank}}{group})", "broadcast_over_ranks"
    return rewritten(site, code, [Helper(helper, features)], arguments)


@rule("HVD303", "broadcast", symbols=["horovod.torch.broadcast_"])
def broadcast_in_place(site: Site, context: Context) -> Finding:
    arguments = rooted(site)
    group, features = group_argument(site, arguments)
    if site.is_discarded:
        code, helpers = f"dist.broadcast({detached(arguments['tensor'], site)}, {{root_rank}}{group})", []
    else:
        code, helpers = f"broadcast_({{tensor}}, {{root_rank}}{group})", [Helper("broadcast_", features)]
    return rewritten(site, code, helpers, arguments)


@rule("HVD303", "broadcast", symbols=["horovod.torch.broadcast_object"])
def broadcast_object(site: Site, context: Context) -> Finding:
    arguments = site.arguments("obj", "root_rank", "name", "process_set")
    if "obj" not in arguments:
        raise RefusalError("the call does not say what it broadcasts")
    group, features = group_argument(site, arguments)
    root = arguments.get("root_rank")
    sender = "" if root is None or is_constant(root, "0") else ", {root_rank}"
    code = f"broadcast_object({{obj}}{sender or (', 0' if group else '')}{group})"
    helper = Helper("broadcast_object", features)
    return rewritten(site, code, [helper], arguments)


def rooted(site: Site) -> Arguments:
    """The arguments of a broadcast of a tensor, which must say who sends what."""
    arguments = site.arguments(*PARAMETERS)
    if not {"tensor", "root_rank"} <= set(arguments):
        raise RefusalError(f"{site.short} does not say which tensor is sent by which rank")
    return arguments
