import os
import sys
from datetime import timedelta
from typing import Callable

import torch.distributed as dist


def finish_together(function: Callable) -> Callable:
    """Make ``function`` return on rank 0 alone, and only when it has ended well on every rank."""

    def run(*args, **kwargs) -> object:
        store, rank, size = next(dist.rendezvous("env://"))
        try:
            value = function(*args, **kwargs)
        except SystemExit as error:
            raise RuntimeError("the function was left by sys.exit") from error
        if rank == 0:
            store.wait([f"rank {other} has ended" for other in range(1, size)], timedelta(days=1))
        else:
            store.set(f"rank {rank} has ended", "")
        if os.environ["LOCAL_RANK"] != "0":
            sys.exit()
        return value

    return run
