"""HVD101 init: ``hvd.init`` becomes joining the process group.

Horovod's ``init`` may be called twice and, without a launcher, starts one process alone; ``init_process_group``
raises in both cases. The helper does what Horovod did. Under ``horovodrun``, ``mpirun`` or ``srun`` with more than
one task, where N processes would each train alone as rank 0 of 1, it raises and names torchrun.

Process sets that ``init`` is given are made right after it, as process groups (HVD108). A list of ranks or an MPI
communicator says which of the started processes train: that is for torchrun to say. A program that joins a process
group itself once Horovod told it the ranks would join twice: its own call goes.

Example:

```python
hvd.init()
```

Use instead:

```python
init_process_group()
```
"""

from __future__ import annotations

from migrator.api import Context, Edit, Finding, Insert, RefusalError, Remove, Replace, Site, cst, expression, rule

from ..ray.joined import is_joined
from ..values import symbol_of
from .names import DIST
from .process_set_plan import INIT, ProcessSets


@rule("HVD101", "init", symbols=[INIT])
def init(site: Site, context: Context) -> tuple[Finding, ...]:
    if site.call is None:
        raise RefusalError("init is passed on as a value; call it where the program starts")
    if is_joined(site, context) and site.statement is not None:
        message = "init goes: Ray Train's workers have joined the process group when the function starts"
        return (site.found("exact", message, [Remove(site.statement)]),)
    own = _joined_later(site)
    plan = next(context.plan(ProcessSets))
    if reason := plan.refused.get(id(site.call)):
        raise RefusalError(reason)
    rest = (_left_out(site, own),) if own is not None else ()
    new, groups = expression("init_process_group()"), plan.groups[id(site.call)]
    if not groups:
        return site.replace(new, helpers=["init_process_group"]), *rest
    edits: list[Edit] = [Replace(site.call, new)]
    if site.statement is not None:
        edits += [Insert(site.statement, "after", group) for group in groups]
    message = "init → init_process_group(), after which all ranks make the process groups, in the order of the sets"
    return site.found("exact", message, edits, imports=[DIST], helpers=["init_process_group"]), *rest


def _left_out(site: Site, own: cst.Call) -> Finding:
    """The program's own call, which would join a second time; raises RefusalError where its value is used."""
    statement = site.module.index.parent(own)
    name = site.module.source(own.func).strip()
    if not isinstance(statement, cst.Expr):
        raise RefusalError(f"the program joins a process group itself, by {name}, and uses what that returns")
    message = f"{name}() goes: the group is the one that is joined where Horovod's init stood; look at its timeout"
    return site.found("review", message, [Remove(statement)], node=own)


def _joined_later(site: Site) -> cst.Call | None:
    """The call by which the code after ``site``, or a block in it, joins a process group unless there is one."""
    index = site.module.index
    block = index.parent(index.line(site.target))
    for node in (*index.attributes["init_process_group"], *(r.node for r in index.references["init_process_group"])):
        call = index.parent(node)
        if not isinstance(call, cst.Call) or symbol_of(node, site.module) != "torch.distributed.init_process_group":
            continue
        holders = list(index.ancestors(call))
        asks = any(isinstance(h, cst.If) and "is_initialized" in site.module.source(h.test) for h in holders)
        if index.before(site.target, call) and any(holder is block for holder in holders) and not asks:
            return call
    return None
