from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_reduce import all_reduce


def reduce_scatter(tensor: torch.Tensor, op: dist.ReduceOp) -> torch.Tensor:  # without options
def reduce_scatter(tensor: torch.Tensor, op: dist.ReduceOp, **options: Any) -> torch.Tensor:  # with options
    """Return this rank's rows of ``tensor`` reduced by ``op``; the first ranks get the rows left over."""
    parts = all_reduce(tensor, op).tensor_split(dist.get_world_size())  # without options
    group = options.get("group")  # with options
    parts = all_reduce(tensor, op, **options).tensor_split(dist.get_world_size(group))  # with options
    return parts[dist.get_rank()].clone()  # without options
    return parts[dist.get_rank(group)].clone()  # with options
