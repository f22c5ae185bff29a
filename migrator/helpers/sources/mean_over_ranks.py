from typing import Any

import torch

from migrator.helpers.all_reduce_mean import all_reduce_mean


class MeanOverRanks(torch.autograd.Function):
    """Mean over all ranks; its gradient is the mean of the ranks' gradients."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:  # without group
    def forward(ctx: Any, tensor: torch.Tensor, group: Any = None) -> torch.Tensor:  # with group
        ctx.group = group  # with group
        return all_reduce_mean(tensor)  # without group
        return all_reduce_mean(tensor, group)  # with group

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # without group
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:  # with group
        return all_reduce_mean(grad)  # without group
        return all_reduce_mean(grad, ctx.group), None  # with group
