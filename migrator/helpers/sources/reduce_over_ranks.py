from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_reduce import all_reduce


class ReduceOverRanks(torch.autograd.Function):
    """Reduction by ``op`` over all ranks; its gradient is the same reduction of the ranks' gradients."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, op: dist.ReduceOp) -> torch.Tensor:  # without options
    def forward(ctx: Any, tensor: torch.Tensor, op: dist.ReduceOp, options: Any = None) -> torch.Tensor:  # with options
        ctx.op = op  # without options
        ctx.op, ctx.options = op, options or {}  # with options
        return all_reduce(tensor, op)  # without options
        return all_reduce(tensor, op, **ctx.options)  # with options

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        return all_reduce(grad, ctx.op), None  # without options
        return all_reduce(grad, ctx.op, **ctx.options), None, None  # with options
