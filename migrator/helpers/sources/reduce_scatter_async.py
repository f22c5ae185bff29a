from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_reduce_async import all_reduce_async
from migrator.helpers.handle import Handle


def reduce_scatter_async(tensor: torch.Tensor, op: dist.ReduceOp) -> Handle:  # without options
def reduce_scatter_async(tensor: torch.Tensor, op: dist.ReduceOp, **options: Any) -> Handle:  # with options
    """Start to reduce ``tensor`` by ``op``; the result is this rank's rows of it."""
    group = options.get("group")  # with options
    size, rank = dist.get_world_size(), dist.get_rank()  # without options
    size, rank = dist.get_world_size(group), dist.get_rank(group)  # with options
    handle = all_reduce_async(tensor.detach().clone(), op)  # without options
    handle = all_reduce_async(tensor.detach().clone(), op, **options)  # with options
    return Handle(handle.works, lambda: handle.result().tensor_split(size)[rank].clone())
