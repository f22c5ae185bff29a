from typing import Any

import torch.distributed as dist


def all_gather_object(value: Any) -> list:
    """Return the ``value`` of every rank, as a list by rank."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
