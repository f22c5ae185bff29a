from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_reduce_mean import all_reduce_mean
from migrator.helpers.broadcast import broadcast


class BroadcastOverRanks(torch.autograd.Function):
    """Rank ``src``'s tensor; its gradient is the mean of the ranks' gradients there, zero elsewhere."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, src: int) -> torch.Tensor:  # without group
    def forward(ctx: Any, tensor: torch.Tensor, src: int, group: Any = None) -> torch.Tensor:  # with group
        ctx.src = src  # without group
        ctx.src, ctx.group = src, group  # with group
        return broadcast(tensor, src)  # without group
        return broadcast(tensor, src, group)  # with group

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        mean = all_reduce_mean(grad)  # without group
        mean = all_reduce_mean(grad, ctx.group)  # with group
        return mean if dist.get_rank() == ctx.src else torch.zeros_like(mean), None  # without group
        return mean if dist.get_rank() == ctx.src else torch.zeros_like(mean), None, None  # with group
