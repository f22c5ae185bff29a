"""HVD301 allreduce: the mean, or another reduction, of a tensor over all ranks.

``hvd.allreduce`` averages by default, returns a new tensor and is differentiable; ``dist.all_reduce`` sums, works in
place and is not. Small functions bridge that. The mean of integers is an integer, truncated toward zero. Where the
result may need a gradient, an ``autograd.Function`` has Horovod's: the same reduction of the ranks' gradients.

``average=False`` and ``op=hvd.Sum`` are sums, and the program's own division stays. A name in the second place is
truthy, so it means the mean. A call whose result nobody uses only makes the ranks wait for each other.
``hvd.allreduce_`` works in place, unseen by autograd.

Example:

```python
loss = hvd.allreduce(torch.tensor(loss), name="loss").item()
```

Use instead:

```python
loss = all_reduce_mean(torch.tensor(loss)).item()
```
"""

from __future__ import annotations

from migrator.api import Context, Finding, RefusalError, Site, cst, rule

from .adasum import raising
from .barrier import PATIENCE, follows_work_of_one_rank
from .gradient_free import detached, is_gradient_free, is_integer
from .reduction import Arguments, Operation, reduction_of, rewritten

REDUCING = ("tensor", "average", "name", "op", "prescale_factor", "postscale_factor", "process_set")
PARAMETERS = (*REDUCING[:3], "compression", *REDUCING[3:])
INTEGERS = "the mean of integers is an integer, truncated toward zero, as Horovod's"


@rule("HVD301", "allreduce", symbols=["horovod.torch.allreduce"])
def allreduce(site: Site, context: Context) -> Finding:
    arguments = tensor_arguments(site, *PARAMETERS)
    if error := raising(site, arguments.get("op")):
        return error
    reduction = reduction_of(arguments, site)
    if site.is_discarded:
        return waited(site, arguments)
    code, helper = reduction.reduced("{tensor}", is_gradient_free(site, arguments["tensor"]))
    note = note_on(reduction.operation, arguments["tensor"], site)
    return rewritten(site, code, [helper], arguments, note)


@rule("HVD301", "allreduce", symbols=["horovod.torch.allreduce_"])
def allreduce_in_place(site: Site, context: Context) -> Finding:
    arguments = tensor_arguments(site, *REDUCING)
    if error := raising(site, arguments.get("op")):
        return error
    reduction = reduction_of(arguments, site)
    note = note_on(reduction.operation, arguments["tensor"], site)
    if site.is_discarded:
        tensor = "{tensor}" if reduction.ends else detached(arguments["tensor"], site)
        code, helpers = reduction.done_in_place(tensor)
        return rewritten(site, code, helpers, arguments, note)
    code, helper = reduction.reduced_in_place("{tensor}")
    return rewritten(site, code, [helper], arguments, note)


def note_on(operation: Operation, tensor: cst.BaseExpression, site: Site) -> str:
    """What a reviewer must know of the reduction of ``tensor``."""
    is_mean_of_integers = operation.known == "AVG" and is_integer(tensor, site.module)
    return operation.note or (INTEGERS if is_mean_of_integers else "")


def tensor_arguments(site: Site, *parameters: str) -> Arguments:
    """The call's arguments, the first of which must be there."""
    arguments = site.arguments(*parameters)
    if parameters[0] not in arguments:
        raise RefusalError(f"the call of {site.short} does not say which {parameters[0]} it is for")
    return arguments


def waited(site: Site, arguments: Arguments) -> Finding:
    """What becomes of a collective whose result nobody uses."""
    group = "group={group}" if "group" in reduction_of(arguments, site).options else ""
    message = f"{site.short} → dist.barrier()"
    note = "nobody uses the result, so that it only made the ranks wait"
    if follows_work_of_one_rank(site):
        note += f"; {PATIENCE}"
    return rewritten(site, f"dist.barrier({group})", [], arguments, note, message=message)
