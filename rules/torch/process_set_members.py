"""HVD112 process-set-members: what is asked of a process set is asked of torch.distributed.

On a rank of the set the answers are the same. Outside it ``dist.get_rank(group)`` and ``dist.get_world_size(group)``
are -1, where Horovod raises for the rank and knows the size. ``ranks`` are written again where the code shows them:
``dist.get_process_group_ranks`` answers for another group on a rank outside.

Example:

```python
print(even.rank(), even.size())
```

Use instead:

```python
print(dist.get_rank(even), dist.get_world_size(even))
```
"""

from __future__ import annotations

from migrator.api import Context, Finding, RefusalError, Site, cst, expression, rule

from ..followed import only_binding
from .names import DIST
from .process_set_plan import SET


def _holder(site: Site) -> cst.BaseExpression:
    assert isinstance(site.node, cst.Attribute)
    return site.node.value


@rule("HVD112", "process-set-members", symbols=[f"{SET}.rank"])
def rank(site: Site, context: Context) -> Finding:
    return _asked(site, "get_rank", "-1 on a rank outside the group, where Horovod raised")


@rule("HVD112", "process-set-members", symbols=[f"{SET}.size"])
def size(site: Site, context: Context) -> Finding:
    return _asked(site, "get_world_size", "-1 on a rank outside the group, where Horovod knew the size")


def _asked(site: Site, function: str, difference: str) -> Finding:
    if site.call is None:
        raise RefusalError(f"{site.short} of a process set is passed on as a value; call it where the number is needed")
    new = expression(f"dist.{function}({{group}})", group=_holder(site))
    message = f"ProcessSet.{site.short} → {site.preview(new)}: {difference}"
    return site.replace(new, class_="review", message=message, imports=[DIST])


@rule("HVD112", "process-set-members", symbols=[f"{SET}.included"])
def included(site: Site, context: Context) -> Finding:
    if site.call is None:
        raise RefusalError("included of a process set is passed on as a value; call it where it is asked")
    return site.replace(expression("dist.get_rank({group}) >= 0", group=_holder(site)), imports=[DIST])


@rule("HVD112", "process-set-members", symbols=[f"{SET}.ranks"])
def ranks(site: Site, context: Context) -> Finding:
    binding = only_binding(_holder(site), site.module)
    made = binding.value if binding is not None else None
    given = made.args[0].value if isinstance(made, cst.Call) and len(made.args) == 1 else None
    inner = given.args[0].value if isinstance(given, cst.Call) and len(given.args) == 1 else given
    if not isinstance(inner, (cst.List, cst.Tuple)) or not all(
        isinstance(element.value, cst.Integer) for element in inner.elements
    ):
        raise RefusalError("a process group tells its ranks to its own ranks only: keep the list that it was made of")
    numbers = sorted(int(element.value.value) for element in inner.elements if isinstance(element.value, cst.Integer))
    return site.replace(expression(str(numbers)))


@rule("HVD112", "process-set-members", symbols=[f"{SET}.process_set_id"])
def process_set_id(site: Site, context: Context) -> Finding:
    raise RefusalError("a process group has no number that all ranks share: give it a name or a number of your own")


@rule("HVD112", "process-set-members", symbols=[f"{SET}.mpi_comm"])
def mpi_comm(site: Site, context: Context) -> Finding:
    raise RefusalError("a process group has no MPI communicator: hand the group itself to what communicates in it")
