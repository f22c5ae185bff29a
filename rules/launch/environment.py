"""HVD601 environment: variables of Horovod and MPI become those of torchrun.

Programs read their rank from what ``horovodrun`` or ``mpirun`` exports. Under torchrun those variables are not set:
a default of 0 would make every process rank 0. A variable that only tunes Horovod has no effect any more; where PyTorch
has such a setting, the finding names it. Variables of a scheduler, such as ``SLURM_PROCID``, keep their meaning, and
are the rank only where the scheduler starts one process for each rank: torchrun is started once on each host.

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

from collections.abc import Iterable, Iterator
from dataclasses import replace

from migrator.api import Context, Finding, Module, Replace, Site, cst, expression, planner, rule

from ..values import symbol_of

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
    "OMPI_COMM_WORLD_NODE_RANK": "LOCAL_RANK",
    "PMI_RANK": "RANK",
    "PMI_SIZE": "WORLD_SIZE",
    "PMIX_RANK": "RANK",
    "MPI_LOCALRANKID": "LOCAL_RANK",
    "MPI_LOCALNRANKS": "LOCAL_WORLD_SIZE",
    "MV2_COMM_WORLD_RANK": "RANK",
    "MV2_COMM_WORLD_SIZE": "WORLD_SIZE",
    "MV2_COMM_WORLD_LOCAL_RANK": "LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_SIZE": "LOCAL_WORLD_SIZE",
}
INSTEAD = {
    "HOROVOD_FUSION_THRESHOLD": "DDP has bucket_cap_mb",
    "HOROVOD_GLOO_IFACE": "Gloo reads GLOO_SOCKET_IFNAME",
    "HOROVOD_GLOO_TIMEOUT_SECONDS": "init_process_group has timeout",
    "HOROVOD_STALL_CHECK_TIME_SECONDS": "init_process_group has timeout",
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "init_process_group has timeout",
    "HOROVOD_TIMELINE": "torch.profiler records a trace",
    "HOROVOD_LOG_LEVEL": "torch reads TORCH_DISTRIBUTED_DEBUG and TORCH_CPP_LOG_LEVEL",
    "HOROVOD_DYNAMIC_PROCESS_SETS": "process groups can be made at any time",
    "HOROVOD_HOSTNAME": "socket.gethostname() is the name of this host",
    "HOROVOD_ELASTIC": "torchrun restarts the script, and counts in TORCHELASTIC_RESTART_COUNT",
}
READ = "os.environ.known"
TUNED = "os.environ.tuning"
NAMED = "os.environ.named"


@planner
def plan_environment(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the variables that the program reads, sets or names."""
    modules = [module for module in context.modules if not _uses_mpi(module)]
    found = [site for module in modules for site in _variables(module)]
    if context.sites or any("HOROVOD_" in module.text for module in modules):
        return (), found
    return (), [replace(site, symbol=NAMED) for site in found]


def _uses_mpi(module: Module) -> bool:
    """Whether the file talks to MPI itself: its variables then are mpirun's, whoever trains."""
    bindings = (b for found in module.index.scope.bindings.values() for b in found)
    return any((binding.symbol or "").partition(".")[0] == "mpi4py" for binding in bindings)


def _variables(module: Module) -> Iterator[Site]:
    for node in module.index.strings:
        name = node.raw_value
        symbol = READ if name in VARIABLES else TUNED if name.startswith("HOROVOD_") else ""
        if symbol and not _is_in_helper(node, module):
            symbol = symbol if _is_variable(node, module) else NAMED
            yield Site(symbol, node, None, module, module.index.scope, module.index.scope)


def _is_in_helper(node: cst.SimpleString, module: Module) -> bool:
    """Whether the string stands in the function by which migrated code joins the process group."""
    functions = (holder for holder in module.index.ancestors(node) if isinstance(holder, cst.FunctionDef))
    return any(function.name.value.endswith("init_process_group") for function in functions)


def _is_variable(node: cst.SimpleString, module: Module) -> bool:
    holder = module.index.parent(node)
    if isinstance(holder, cst.Arg):
        call = module.index.parent(holder)
        names = ("os.environ.get", "os.getenv", "os.environ.setdefault", "os.environ.pop", "os.putenv")
        return isinstance(call, cst.Call) and call.args[0] is holder and symbol_of(call.func, module) in names
    if isinstance(holder, cst.Comparison) and len(holder.comparisons) == 1:
        target = holder.comparisons[0]
        is_membership = isinstance(target.operator, (cst.In, cst.NotIn))
        return is_membership and symbol_of(target.comparator, module) == "os.environ"
    while isinstance(holder, (cst.Index, cst.SubscriptElement)):
        holder = module.index.parent(holder)
    return isinstance(holder, cst.Subscript) and symbol_of(holder.value, module) == "os.environ"


@rule("HVD601", "environment", symbols=[NAMED])
def named(site: Site, context: Context) -> Finding:
    assert isinstance(site.node, cst.SimpleString)
    name = site.node.raw_value
    instead = f"; torchrun sets {VARIABLES[name]}" if name in VARIABLES else ""
    message = f"the string names {name}, which no launcher of the migrated program sets or reads{instead}"
    return site.found("review", message)


@rule("HVD601", "environment", symbols=[READ])
def environment(site: Site, context: Context) -> Finding:
    assert isinstance(site.node, cst.SimpleString)
    old, quote = site.node.raw_value, site.node.quote
    message = f"{old} → {VARIABLES[old]}, which torchrun sets"
    return site.found("review", message, [Replace(site.node, expression(f"{quote}{VARIABLES[old]}{quote}"))])


@rule("HVD601", "environment", symbols=[TUNED])
def tuning(site: Site, context: Context) -> Finding:
    assert isinstance(site.node, cst.SimpleString)
    name = site.node.raw_value
    instead = f"; {INSTEAD[name]}" if name in INSTEAD else ""
    return site.found("review", f"{name} has no effect after the migration{instead}")
