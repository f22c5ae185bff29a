from datetime import timedelta
from typing import Callable

import torch.distributed as dist


def gather_results(function: Callable) -> Callable:
    """Make ``function`` return the list of what it returned on every rank."""

    def run(*args, **kwargs) -> list:
        from pyspark import cloudpickle

        store, rank, size = next(dist.rendezvous("env://"))
        value = function(*args, **kwargs)
        store.set(f"rank {rank} has ended", "")
        store.wait([f"rank {each} has ended" for each in range(size)], timedelta(days=1))
        if not dist.is_initialized():
            dist.init_process_group("gloo", store=dist.PrefixStore("results", store), rank=rank, world_size=size)
        values = [None] * size
        dist.all_gather_object(values, cloudpickle.dumps(value))
        return [cloudpickle.loads(each) for each in values]

    return run
