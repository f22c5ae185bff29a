"""HVD302 allgather: the tensors, or objects, of all ranks.

Tensors come one after the other along the first dimension. Their lengths may differ between ranks, which
``dist.all_gather`` does not take; the helper asks for them first. Where the result may need a gradient, it has
Horovod's: the mean over ranks of the gradient of the rank's own part. ``hvd.allgather_object`` returns a list by rank,
``dist.all_gather_object`` fills one.

Example:

```python
everyone = hvd.allgather(predictions, name="predictions")
```

Use instead:

```python
everyone = all_gather_cat(predictions)
```
"""

from migrator.api import Context, Finding, Helper, RefusalError, Site, rule

from .allreduce import tensor_arguments
from .gradient_free import is_gradient_free
from .reduction import Arguments, group_of, rewritten

PARAMETERS = ("tensor", "name", "process_set")


@rule("HVD302", "allgather", symbols=["horovod.torch.allgather"])
def allgather(site: Site, context: Context) -> Finding:
    arguments = tensor_arguments(site, *PARAMETERS)
    code, helper = gathered("{tensor}", site, arguments, is_gradient_free(site, arguments["tensor"]))
    return rewritten(site, code, [helper], arguments)


@rule("HVD302", "allgather", symbols=["horovod.torch.allgather_object"])
def allgather_object(site: Site, context: Context) -> Finding:
    arguments = site.arguments("obj", "name")
    if "obj" not in arguments:
        raise RefusalError("the call does not say what it gathers")
    helper = Helper("all_gather_object")
    return rewritten(site, "all_gather_object({obj})", [helper], arguments)


def gathered(tensor: str, site: Site, arguments: Arguments, is_plain: bool) -> tuple[str, Helper]:
    """Code that returns ``tensor`` of all ranks, without a gradient where the tensor ``is_plain``."""
    group, features = group_argument(site, arguments)
    if is_plain:
        return f"all_gather_cat({tensor}{group})", Helper("all_gather_cat", features)
    return f"GatherOverRanks.apply({tensor}{group})", Helper("gather_over_ranks", features)


def group_argument(site: Site, arguments: Arguments) -> tuple[str, frozenset[str]]:
    """The process group as a last argument, and the feature of helpers that take one."""
    if group_of(arguments, site.module) is None:
        return "", frozenset()
    return ", {group}", frozenset({"group"})
