"""HVD302 allgather: the tensors of all ranks, one after the other along the first dimension.

The lengths may differ between ranks, which ``dist.all_gather`` does not take; the helper asks for them first. Where
the result may need a gradient, it has Horovod's: the mean over ranks of the gradient of the rank's own part.

Example:

```python
everyone = hvd.allgather(predictions, name="predictions")
```

Use instead:

```python
everyone = all_gather_cat(predictions)
```
"""

from migrator.api import Context, Finding, RefusalError, Site, expression, rule

from .gradient_free import is_gradient_free


@rule("HVD302", "allgather", symbols=["horovod.torch.allgather"])
def allgather(site: Site, context: Context) -> Finding:
    arguments = site.arguments("tensor", "name", "process_set")
    if "process_set" in arguments:
        raise RefusalError("the tensors are gathered within a process set")
    if "tensor" not in arguments:
        raise RefusalError("the call does not say what it gathers")
    tensor = arguments["tensor"]
    if is_gradient_free(site, tensor):
        return site.replace(expression("all_gather_cat({tensor})", tensor=tensor), helpers=["all_gather_cat"])
    new = expression("GatherOverRanks.apply({tensor})", tensor=tensor)
    return site.replace(new, helpers=["gather_over_ranks"])
