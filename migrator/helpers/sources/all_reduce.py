from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.scale_ import scale_


def all_reduce(tensor: torch.Tensor, op: dist.ReduceOp) -> torch.Tensor:  # without long, without group
def all_reduce(tensor: torch.Tensor, op: dist.ReduceOp, group: Any = None) -> torch.Tensor:  # without long, with group
def all_reduce(  # with long
    tensor: torch.Tensor,  # with long
    op: dist.ReduceOp,  # with long
    group: Any = None,  # with long, with group
    prescale_factor: float = 1.0,  # with scale
    postscale_factor: float = 1.0,  # with scale
    compression: Any = None,  # with compression
) -> torch.Tensor:  # with long
    """Return ``tensor`` reduced over all ranks by ``op`` as a new tensor."""
    result = tensor.detach().clone()
    if compression is not None and tensor.is_floating_point():  # with compression
        result = result.to(compression)  # with compression
    scale_(result, prescale_factor)  # with scale
    dist.all_reduce(result, op)  # without mean, without group
    dist.all_reduce(result, op, group)  # without mean, with group
    is_mean = op in (None, dist.ReduceOp.AVG)  # with mean
    dist.all_reduce(result, dist.ReduceOp.SUM if is_mean else op)  # with mean, without group
    dist.all_reduce(result, dist.ReduceOp.SUM if is_mean else op, group)  # with mean, with group
    divisor = dist.get_world_size() if is_mean else 1  # with mean, without group
    divisor = dist.get_world_size(group) if is_mean else 1  # with mean, with group
    scale_(result, 1 / divisor)  # with mean, without scale
    scale_(result, postscale_factor / divisor)  # with mean, with scale
    scale_(result, postscale_factor)  # without mean, with scale
    return result  # without compression
    return result.to(tensor.dtype)  # with compression
