from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_reduce import all_reduce


class SumOverRanks(torch.autograd.Function):
    """Sum over all ranks; its gradient is the sum of the ranks' gradients."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:  # without group
    def forward(ctx: Any, tensor: torch.Tensor, group: Any = None) -> torch.Tensor:  # with group
        ctx.group = group  # with group
        return all_reduce(tensor, dist.ReduceOp.SUM)  # without group
        return all_reduce(tensor, dist.ReduceOp.SUM, group)  # with group

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # without group
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:  # with group
        return all_reduce(grad, dist.ReduceOp.SUM)  # without group
        return all_reduce(grad, dist.ReduceOp.SUM, ctx.group), None  # with group
