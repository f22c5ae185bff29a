"""HVD702 internals: what Horovod's own modules happen to export is explained, name by name.

Autograd functions behind the collectives, checks of Horovod's installation and small functions of its own: programs
seldom use them, and most have no meaning without Horovod. Each is named with what to do instead.
"""

from migrator.api import Context, Finding, Import, RefusalError, Site, expression, rule

_COLLECTIVES = {
    "HorovodAllreduce": "hvd.allreduce(tensor, op=...)",
    "HorovodGroupedAllreduce": "hvd.grouped_allreduce(tensors, op=...)",
    "HorovodAllgather": "hvd.allgather(tensor)",
    "HorovodGroupedAllgather": "hvd.grouped_allgather(tensors)",
    "HorovodBroadcast": "hvd.broadcast(tensor, root_rank)",
    "HorovodAlltoall": "hvd.alltoall(tensor, splits)",
    "HorovodReducescatter": "hvd.reducescatter(tensor, op=...)",
    "HorovodGroupedReducescatter": "hvd.grouped_reducescatter(tensors, op=...)",
}
INSTEAD = {
    **{
        name: f"{name} is the autograd function behind a collective: call {call}, which is migrated with its gradient"
        for name, call in _COLLECTIVES.items()
    },
    "is_homogeneous": (
        "is_homogeneous asks whether all hosts have as many ranks; torchrun starts --nproc-per-node of them on each: "
        "take the question out, or gather LOCAL_WORLD_SIZE of all ranks"
    ),
    "check_extension": (
        "check_extension raises where Horovod was built without PyTorch: take the call out, or ask "
        "torch.distributed.is_available()"
    ),
    "mpi_lib_v2": (
        "mpi_lib_v2 is Horovod's compiled library: call the function of horovod.torch around what is taken from it"
    ),
    "num_rank_is_power_2": (
        "num_rank_is_power_2 asks what Adasum needs, which has no counterpart: write n & (n - 1) == 0 where the "
        "program itself needs it"
    ),
    "split_list": "split_list cuts a list into parts of nearly one length: write the slices out where they are needed",
    "check_installed_version": (
        "check_installed_version compares PyTorch with the one that Horovod was built for: take the call out"
    ),
    "handle_average_backwards_compatibility": (
        "handle_average_backwards_compatibility makes op of an old average argument: pass op itself to the collective"
    ),
    "get_average_backwards_compatibility_fun": (
        "get_average_backwards_compatibility_fun makes the function that reads an old average argument: choose the "
        "operation, such as dist.ReduceOp.SUM, where average was chosen"
    ),
    "is_iterable": "is_iterable tries iter(x): ask isinstance(x, collections.abc.Iterable) instead",
    "HorovodBasics": (
        "HorovodBasics loads one library of Horovod: call the functions of horovod.torch, such as rank and size, "
        "instead of its methods"
    ),
    "MPI": "MPI is an empty stand-in for mpi4py's in annotations: import mpi4py where communicators are meant",
}


@rule("HVD702", "internals", symbols=[f"horovod.torch.{name}" for name in INSTEAD])
def internals(site: Site, context: Context) -> Finding:
    raise RefusalError(INSTEAD[site.short])


@rule("HVD702", "internals", symbols=["horovod.torch.AnyStr", "horovod.torch.TYPE_CHECKING"])
def of_typing(site: Site, context: Context) -> Finding:
    message = f"{site.short} is typing's, and is imported from there"
    return site.replace(expression(site.short), message=message, imports=[Import("typing", site.short)])
