"""HVD703 launcher: what lies under ``horovod.runner`` is Horovod's launcher, which torchrun replaces.

``horovod.run`` has a counterpart (HVD106). The modules below it start processes by ssh, MPI or jsrun, and let them find
one another; torchrun and its rendezvous do that. What a program takes from them is explained by module.
"""

from migrator.api import Context, Finding, RefusalError, Site, rule

INSTEAD = {
    "common": "parses hosts and talks between launcher and tasks: start torchrun on each host, with --rdzv-endpoint",
    "elastic": "is the driver of elastic jobs: torchrun --nnodes=MIN:MAX --max-restarts=N lets hosts come and go",
    "http": "is the server in which ranks find one another: torchrun's rendezvous is one, on --rdzv-endpoint=HOST:PORT",
    "util": "finds network interfaces and runs ssh: set GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME, and start torchrun",
    "driver": "asks the hosts which interfaces they share: set GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME instead",
    "task": "is the service that answers the launcher on each host: torchrun's agent is that",
    "launch": "is the command horovodrun: call torch.distributed.run.main(), or start torchrun",
    "gloo_run": "starts ranks by ssh: start torchrun on each host",
    "mpi_run": "starts ranks by mpirun: start torchrun on each host, with srun or mpirun -npernode 1 if need be",
    "js_run": "starts ranks by jsrun: let jsrun start one torchrun on each host",
    "run_task": "runs a function that the launcher pickled: torch.distributed.launcher.api.elastic_launch does so now",
    "task_fn": "registers a host with the launcher: torchrun's agent does so at its rendezvous",
}
_PACKAGE = "horovod.runner"


@rule("HVD703", "launcher", symbols=[f"{_PACKAGE}.{module}.*" for module in INSTEAD])
def launcher(site: Site, context: Context) -> Finding:
    module = site.symbol.removeprefix(f"{_PACKAGE}.").partition(".")[0]
    raise RefusalError(f"{site.short} belongs to {_PACKAGE}.{module}, which {INSTEAD[module]}")
