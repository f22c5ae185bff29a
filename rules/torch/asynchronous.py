"""HVD309 asynchronous: a collective that runs while the program goes on, and the wait for it.

``hvd.*_async`` returns a handle, ``hvd.synchronize`` waits for it and returns the result. ``async_op=True`` returns a
``Work`` whose ``wait()`` returns no tensor; what is left to do after it, a division for the mean, belongs to the
handle that takes its place. The collective still runs while the program goes on. ``synchronize`` may be called again,
and returns the same; Horovod returns None then.

``hvd.sparse_allreduce_async`` returns a function that finishes the sum or mean, and so does its replacement.

Example:

```python
handle = hvd.allreduce_async_(tensor, name="tensor")
hvd.synchronize(handle)
```

Use instead:

```python
handle = all_reduce_async(tensor, dist.ReduceOp.AVG)
synchronize(handle)
```
"""

from __future__ import annotations

from migrator.api import Context, Finding, Helper, RefusalError, Site, cst, expression, rule

from .allgather import PARAMETERS as GATHERING
from .allgather import group_argument
from .allreduce import REDUCING, tensor_arguments
from .alltoall import PARAMETERS as EXCHANGING
from .alltoall import exchanged
from .broadcast import rooted
from .collective_order import by_name
from .gradient_free import detached
from .grouped import name_for_each
from .reducescatter import SCATTERING, scattering
from .reduction import Arguments, operation_of, reduction_of, rewritten

SYNCHRONIZE = "horovod.torch.synchronize"
POLL = "horovod.torch.poll"
ASYNCHRONOUS = frozenset({"asynchronous"})


@rule("HVD309", "asynchronous", symbols=[SYNCHRONIZE, POLL])
def synchronize(site: Site, context: Context) -> Finding:
    if site.call is None:
        return site.replace(expression(site.short), helpers=[site.short])
    arguments = tensor_arguments(site, "handle")
    return rewritten(site, f"{site.short}({{handle}})", [Helper(site.short)], arguments)


@rule("HVD309", "asynchronous", symbols=["horovod.torch.allreduce_async", "horovod.torch.allreduce_async_"])
def allreduce_async(site: Site, context: Context) -> tuple[Finding, ...]:
    arguments = tensor_arguments(site, *REDUCING)
    tensor = "{tensor}" if site.short.endswith("_") else f"{detached(arguments['tensor'], site)}.clone()"
    code, helper, note = _reduction(tensor, site, arguments, context)
    return rewritten(site, code, [helper], arguments, note), *by_name(site, arguments)


@rule(
    "HVD309",
    "asynchronous",
    symbols=["horovod.torch.grouped_allreduce_async", "horovod.torch.grouped_allreduce_async_"],
)
def grouped_allreduce_async(site: Site, context: Context) -> tuple[Finding, ...]:
    arguments = tensor_arguments(site, "tensors", *REDUCING[1:])
    each = name_for_each(arguments)
    tensor = each if site.short.endswith("_") else f"{each}.detach().clone()"
    code, helper, note = _reduction(tensor, site, arguments, context)
    return _together(site, code, helper, arguments, note)


@rule("HVD309", "asynchronous", symbols=["horovod.torch.allgather_async"])
def allgather_async(site: Site, context: Context) -> tuple[Finding, ...]:
    arguments = tensor_arguments(site, *GATHERING)
    group, features = group_argument(site, arguments)
    helper = Helper("all_gather_cat", features | ASYNCHRONOUS)
    return rewritten(site, f"all_gather_async({{tensor}}{group})", [helper], arguments), *by_name(site, arguments)


@rule("HVD309", "asynchronous", symbols=["horovod.torch.grouped_allgather_async"])
def grouped_allgather_async(site: Site, context: Context) -> tuple[Finding, ...]:
    arguments = tensor_arguments(site, "tensors", *GATHERING[1:])
    group, features = group_argument(site, arguments)
    helper = Helper("all_gather_cat", features | ASYNCHRONOUS)
    return _together(site, f"all_gather_async({name_for_each(arguments)}{group})", helper, arguments, "")


@rule("HVD309", "asynchronous", symbols=["horovod.torch.broadcast_async", "horovod.torch.broadcast_async_"])
def broadcast_async(site: Site, context: Context) -> tuple[Finding, ...]:
    arguments = rooted(site)
    group, features = group_argument(site, arguments)
    tensor = "{tensor}" if site.short.endswith("_") else f"{detached(arguments['tensor'], site)}.clone()"
    code = f"broadcast_async({tensor}, {{root_rank}}{group})"
    return rewritten(site, code, [Helper("broadcast_async", features)], arguments), *by_name(site, arguments)


@rule("HVD309", "asynchronous", symbols=["horovod.torch.alltoall_async"])
def alltoall_async(site: Site, context: Context) -> tuple[Finding, ...]:
    arguments = tensor_arguments(site, *EXCHANGING)
    rows, features = exchanged(site, arguments)
    helper = Helper("all_to_all", features | ASYNCHRONOUS)
    return rewritten(site, f"all_to_all_async({rows})", [helper], arguments), *by_name(site, arguments)


@rule("HVD309", "asynchronous", symbols=["horovod.torch.reducescatter_async"])
def reducescatter_async(site: Site, context: Context) -> tuple[Finding, ...]:
    arguments = tensor_arguments(site, "tensor", *SCATTERING)
    reduction = scattering(arguments, site)
    code = f"reduce_scatter_async({{tensor}}{reduction.keywords})"
    helper = reduction.helper("reduce_scatter_async")
    return rewritten(site, code, [helper], arguments, reduction.operation.note), *by_name(site, arguments)


@rule("HVD309", "asynchronous", symbols=["horovod.torch.grouped_reducescatter_async"])
def grouped_reducescatter_async(site: Site, context: Context) -> tuple[Finding, ...]:
    arguments = tensor_arguments(site, "tensors", *SCATTERING)
    reduction = scattering(arguments, site)
    code = f"reduce_scatter_async({name_for_each(arguments)}{reduction.keywords})"
    return _together(site, code, reduction.helper("reduce_scatter_async"), arguments, reduction.operation.note)


@rule("HVD309", "asynchronous", symbols=["horovod.torch.sparse_allreduce_async"])
def sparse_allreduce_async(site: Site, context: Context) -> tuple[Finding, ...]:
    arguments = tensor_arguments(site, "tensor", "name", "op", "process_set")
    group, features = group_argument(site, arguments)
    operation = operation_of(arguments, site)
    if operation.known not in ("", "AVG", "SUM"):
        raise RefusalError("Horovod adds sparse tensors up, whatever else 'op' asks for: say hvd.Sum")
    helper = Helper("sparse_all_reduce_async", features | ASYNCHRONOUS)
    code = f"sparse_all_reduce_async({{tensor}}, {operation.code}{group})"
    return rewritten(site, code, [helper], arguments, operation.note), *by_name(site, arguments)


def _reduction(tensor: str, site: Site, arguments: Arguments, context: Context) -> tuple[str, Helper, str]:
    reduction = reduction_of(arguments, site)
    if reduction.ends and site.short.endswith("_") and not _is_waited_for(site, context):
        raise RefusalError(f"nobody waits for this {site.short}, after which its mean would be taken: synchronize it")
    code = f"all_reduce_async({tensor}{reduction.arguments})"
    return code, reduction.helper("all_reduce_async"), reduction.operation.note


def _is_waited_for(site: Site, context: Context) -> bool:
    """Whether something may wait for the site's handle: the program waits for handles, and this one is not dropped."""
    target = site.assigned_to
    is_dropped = isinstance(target, cst.Name) and not site.module.index.references[target.value]
    return not (site.is_discarded or is_dropped) and bool(context.uses(SYNCHRONIZE) or context.uses(POLL))


def _together(site: Site, code: str, helper: Helper, arguments: Arguments, note: str) -> tuple[Finding, ...]:
    """``code`` for each tensor, under one handle."""
    code = f"together([{code} for {name_for_each(arguments)} in {{tensors}}])"
    return rewritten(site, code, [helper, Helper("together")], arguments, note), *by_name(site, arguments)
