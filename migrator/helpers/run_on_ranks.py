from functools import partial
from typing import Any, Callable

from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def run_on_ranks(function: Callable, args: tuple = (), kwargs: Any = None, num_processes: int = 1, hosts: Any = None) -> list:
    """Run ``function`` on ``num_processes`` ranks of this machine and return their results."""
    if hosts and not all(host.split(":")[0] in ("localhost", "127.0.0.1") for host in hosts.split(",")):
        raise NotImplementedError("start this program with torchrun on every host")
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=num_processes, rdzv_backend="c10d", rdzv_endpoint="localhost:0"
    )
    results = elastic_launch(config, partial(function, **(kwargs or {})))(*args)
    return [results[rank] for rank in sorted(results)]
