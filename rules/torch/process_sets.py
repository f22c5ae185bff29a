"""HVD108 process-sets: a process set becomes a process group.

``dist.new_group(ranks)`` is called by all ranks, in one order, after the process group of all ranks is joined. A set
that ``hvd.init`` is given is made right after it; ``add_process_set`` makes one where it stands. On a rank outside the
set ``ProcessSet.rank()`` raises and ``dist.get_rank(group)`` is -1; ``ProcessSet.size()`` is the size of the set and
``dist.get_world_size(group)`` is -1. Roots of broadcasts are global ranks in both.

A process group has no number and does not tell other ranks who is in it: where the ranks are written in the code they
are written again, elsewhere a list has to be kept.

Example:

```python
even = hvd.ProcessSet([0, 2])
hvd.init(process_sets=[even])
if even.included():
    print(even.rank())
```

Use instead:

```python
init_process_group()
even = dist.new_group([0, 2])
if dist.get_rank(even) >= 0:
    print(dist.get_rank(even))
```
"""

from __future__ import annotations

from migrator.api import Context, Finding, RefusalError, Remove, Replace, Site, cst, expression, rule

from ..followed import only_binding
from ..guards import runs_on_some_ranks
from .names import DIST
from .process_set_plan import ADD, GLOBAL, SET, ProcessSets, is_mpi

MPI = "a process set made from an MPI communicator cannot become a process group: name its ranks"


@rule("HVD108", "process-sets", symbols=[SET])
def process_set(site: Site, context: Context) -> Finding:
    if site.call is None:
        return _type(site)
    ranks = site.arguments("ranks_or_comm").get("ranks_or_comm")
    if ranks is None:
        raise RefusalError("the process set does not say which ranks it is of")
    if is_mpi(ranks, site):
        raise RefusalError(MPI)
    plan = next(context.plan(ProcessSets))
    if id(site.call) in plan.moved and site.statement is not None:
        message = "ProcessSet → dist.new_group() after init, which all ranks call in one order"
        return site.found("exact", message, [Remove(site.statement)])
    if id(site.call) in plan.lists:
        message = "ProcessSet → its ranks, of which a process group is made where Horovod registered the set"
        return site.found("exact", message, [Replace(site.call, expression("{ranks}", ranks=ranks))])
    raise RefusalError("neither init nor add_process_set gets this process set here: make it with dist.new_group there")


def _type(site: Site) -> Finding:
    holders = list(site.module.index.ancestors(site.node))
    names = (h.func.value for h in holders if isinstance(h, cst.Call) and isinstance(h.func, cst.Name))
    if not any(isinstance(holder, cst.Annotation) for holder in holders) and "isinstance" not in names:
        raise RefusalError("the class ProcessSet is used as a value; a process group is made by dist.new_group(ranks)")
    message = "ProcessSet → dist.ProcessGroup; on ranks outside the group dist.new_group returns a number instead"
    return site.replace(expression("dist.ProcessGroup"), class_="review", message=message, imports=[DIST])


@rule("HVD108", "process-sets", symbols=[ADD])
def add_process_set(site: Site, context: Context) -> Finding:
    if site.call is None:
        return site.replace(expression("dist.new_group"), imports=[DIST])
    given = site.arguments("process_set").get("process_set")
    if given is None:
        raise RefusalError("the call does not say which ranks the process set is of")
    if is_mpi(given, site):
        raise RefusalError(MPI)
    if runs_on_some_ranks(site.target, site.module):
        raise RefusalError("the process set is added on some ranks only: all ranks must call dist.new_group")
    new = expression("dist.new_group({ranks})", ranks=given)
    plan, binding = next(context.plan(ProcessSets)), only_binding(given, site.module)
    if binding is not None and id(binding.value) in plan.lists:
        return _registered(site, given)
    return site.replace(new, imports=[DIST])


def _registered(site: Site, given: cst.BaseExpression) -> Finding:
    """``add_process_set(even)``, which changes ``even``: the name is bound again, to the group."""
    assert isinstance(given, cst.Name)
    index, binding = site.module.index, only_binding(given, site.module)
    if binding is None or binding.scope is not site.scope:
        raise RefusalError(f"{given.value!r} is made elsewhere and becomes a process group here: make it here")
    if site.is_discarded:
        return site.replace(expression("{set} = dist.new_group({set})", set=given), imports=[DIST])
    if any(reference.node is not given for reference in index.references[given.value]):
        raise RefusalError(f"the process set has two names, of which {given.value!r} is the older: use the newer")
    return site.replace(expression("dist.new_group({set})", set=given), imports=[DIST])


@rule("HVD108", "process-sets", symbols=["horovod.torch.remove_process_set"])
def remove_process_set(site: Site, context: Context) -> Finding:
    group = site.arguments("process_set").get("process_set")
    if group is None or not site.is_discarded:
        raise RefusalError("whether remove_process_set succeeded is asked; dist.destroy_process_group returns nothing")
    if any(group is other.node for other in context.uses(GLOBAL)):
        raise RefusalError("remove_process_set does nothing to the set of all ranks: take the call out")
    message = "remove_process_set → dist.destroy_process_group(), which all ranks call"
    new = expression("dist.destroy_process_group({group})", group=group)
    return site.replace(new, message=message, imports=[DIST])


@rule("HVD108", "process-sets", symbols=[GLOBAL])
def global_process_set(site: Site, context: Context) -> Finding:
    new = expression("dist.group.WORLD")
    if not any(isinstance(holder, cst.Param) for holder in site.module.index.ancestors(site.node)):
        return site.replace(new, imports=[DIST])
    message = "global_process_set → dist.group.WORLD, which as a default is None, the group of all ranks all the same"
    return site.replace(new, class_="review", message=message, imports=[DIST])


WORLD = {
    f"{GLOBAL}.size": "dist.get_world_size",
    f"{GLOBAL}.rank": "dist.get_rank",
}


@rule("HVD108", "process-sets", symbols=list(WORLD))
def of_all_ranks(site: Site, context: Context) -> Finding:
    new = expression(WORLD[site.symbol] + ("" if site.call is None else "()"))
    return site.replace(new, message=f"global_process_set.{site.short} → {new.text}", imports=[DIST])


@rule("HVD108", "process-sets", symbols=[f"{GLOBAL}.included"])
def all_included(site: Site, context: Context) -> Finding:
    return site.replace(expression("True" if site.call is not None else "lambda: True"))


@rule("HVD108", "process-sets", symbols=[f"{GLOBAL}.ranks"])
def all_ranks(site: Site, context: Context) -> Finding:
    return site.replace(expression("list(range(dist.get_world_size()))"), imports=[DIST])


@rule("HVD108", "process-sets", symbols=[f"{GLOBAL}.process_set_id"])
def number_of_all_ranks(site: Site, context: Context) -> Finding:
    raise RefusalError(
        "the number of the set of all ranks is 0 to Horovod alone: compare with dist.group.WORLD instead"
    )


@rule("HVD108", "process-sets", symbols=[f"{GLOBAL}.mpi_comm"])
def communicator_of_all_ranks(site: Site, context: Context) -> Finding:
    raise RefusalError("the MPI communicator of all ranks is gone with MPI: the group of all ranks is dist.group.WORLD")
