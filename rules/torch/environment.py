"""HVD601 environment: variables of Horovod and MPI become those of torchrun.

Programs read their rank from what ``horovodrun`` or ``mpirun`` exports. Under torchrun those variables are not set:
a default of 0 would make every process rank 0. A variable that only tunes Horovod has no effect any more.

Example:

```python
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
```

Use instead:

```python
rank = int(os.environ["RANK"])
```
"""

from __future__ import annotations

from collections.abc import Iterable

from migrator.api import Context, Finding, Module, Replace, Site, cst, expression, planner, rule

from .values import symbol_of

VARIABLES = {
    "HOROVOD_RANK": "RANK",
    "HOROVOD_SIZE": "WORLD_SIZE",
    "HOROVOD_LOCAL_RANK": "LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE": "LOCAL_WORLD_SIZE",
    "HOROVOD_CROSS_RANK": "GROUP_RANK",
    "HOROVOD_CROSS_SIZE": "GROUP_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK": "RANK",
    "OMPI_COMM_WORLD_SIZE": "WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK": "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "LOCAL_WORLD_SIZE",
    "PMI_RANK": "RANK",
    "PMI_SIZE": "WORLD_SIZE",
}
READ = "os.environ.known"
TUNED = "os.environ.tuning"


@planner
def plan_environment(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the variables that the program reads or sets."""
    found = [
        Site(READ if node.raw_value in VARIABLES else TUNED, node, None, module, module.index.scope, module.index.scope)
        for module in context.modules
        for node in module.index.strings
        if node.raw_value in VARIABLES or node.raw_value.startswith("HOROVOD_")
        if _is_variable(node, module)
    ]
    return (), found


def _is_variable(node: cst.SimpleString, module: Module) -> bool:
    holder = module.index.parent(node)
    if isinstance(holder, cst.Arg):
        call = module.index.parent(holder)
        names = ("os.environ.get", "os.getenv", "os.environ.setdefault", "os.environ.pop", "os.putenv")
        return isinstance(call, cst.Call) and call.args[0] is holder and symbol_of(call.func, module) in names
    while isinstance(holder, (cst.Index, cst.SubscriptElement)):
        holder = module.index.parent(holder)
    return isinstance(holder, cst.Subscript) and symbol_of(holder.value, module) == "os.environ"


@rule("HVD601", "environment", symbols=[READ])
def environment(site: Site, context: Context) -> Finding:
    assert isinstance(site.node, cst.SimpleString)
    old, quote = site.node.raw_value, site.node.quote
    message = f"{old} → {VARIABLES[old]}, which torchrun sets"
    return site.found("review", message, [Replace(site.node, expression(f"{quote}{VARIABLES[old]}{quote}"))])


@rule("HVD601", "environment", symbols=[TUNED])
def tuning(site: Site, context: Context) -> Finding:
    assert isinstance(site.node, cst.SimpleString)
    return site.found("review", f"{site.node.raw_value} has no effect after the migration")
