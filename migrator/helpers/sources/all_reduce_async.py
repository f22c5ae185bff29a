from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.handle import Handle
from migrator.helpers.scale_ import scale_


def all_reduce_async(tensor: torch.Tensor, op: dist.ReduceOp) -> Handle:  # without scale, without group
def all_reduce_async(tensor: torch.Tensor, op: dist.ReduceOp, group: Any = None) -> Handle:  # without scale, with group
def all_reduce_async(  # with scale
    tensor: torch.Tensor,  # with scale
    op: dist.ReduceOp,  # with scale
    group: Any = None,  # with scale, with group
    prescale_factor: float = 1.0,  # with scale
    postscale_factor: float = 1.0,  # with scale
) -> Handle:  # with scale
    """Start to reduce ``tensor`` over all ranks by ``op`` in place; ``synchronize`` finishes that."""
    result = tensor.detach()
    scale_(result, prescale_factor)  # with scale
    work = dist.all_reduce(result, op, async_op=True)  # without mean, without group
    work = dist.all_reduce(result, op, group, async_op=True)  # without mean, with group
    is_mean = op in (None, dist.ReduceOp.AVG)  # with mean
    work = dist.all_reduce(result, dist.ReduceOp.SUM if is_mean else op, async_op=True)  # with mean, without group
    work = dist.all_reduce(result, dist.ReduceOp.SUM if is_mean else op, group, async_op=True)  # with mean, with group
    divisor = dist.get_world_size() if is_mean else 1  # with mean, without group
    divisor = dist.get_world_size(group) if is_mean else 1  # with mean, with group

    def finish() -> torch.Tensor:  # with ends
        scale_(result, 1 / divisor)  # with mean, without scale
        scale_(result, postscale_factor / divisor)  # with mean, with scale
        scale_(result, postscale_factor)  # without mean, with scale
        return tensor  # with ends

    return Handle([work], finish)  # with ends
    return Handle([work], lambda: tensor)  # without ends
