from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_reduce import all_reduce


class SumOverRanks(torch.autograd.Function):
    """Sum over all ranks; its gradient is the sum of the ranks' gradients."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return all_reduce(tensor, dist.ReduceOp.SUM)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return all_reduce(grad, dist.ReduceOp.SUM)
