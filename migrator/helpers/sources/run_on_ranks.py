from functools import partial, update_wrapper
from typing import Any, Callable

from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def run_on_ranks(function: Callable, args: tuple = (), kwargs: Any = None, num_processes: int = 1, hosts: str = "") -> list:
    """Run ``function`` on ``num_processes`` ranks of this machine and return their results."""
    if any(host.split(":")[0] not in ("", "localhost", "127.0.0.1") for host in (hosts or "").split(",")):
        raise NotImplementedError("start this program with torchrun on every host")
    entrypoint = update_wrapper(partial(function, **kwargs), function) if kwargs else function
    config = LaunchConfig(1, 1, num_processes, run_id="run", rdzv_backend="c10d", rdzv_endpoint="localhost:0")
    results = elastic_launch(config, entrypoint)(*args)
    return [results[rank] for rank in sorted(results)]
