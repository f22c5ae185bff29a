from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_reduce_mean import all_reduce_mean
from migrator.helpers.broadcast import broadcast


class BroadcastOverRanks(torch.autograd.Function):
    """Rank ``src``'s tensor; its gradient is the mean of the ranks' gradients there, zero elsewhere."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, src: int) -> torch.Tensor:
        ctx.src = src
        return broadcast(tensor, src)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        mean = all_reduce_mean(grad)
        return mean if dist.get_rank() == ctx.src else torch.zeros_like(mean), None
