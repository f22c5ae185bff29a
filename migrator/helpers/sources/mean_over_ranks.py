from typing import Any

import torch

from migrator.helpers.all_reduce_mean import all_reduce_mean


class MeanOverRanks(torch.autograd.Function):
    """Mean over all ranks; its gradient is the mean of the ranks' gradients."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return all_reduce_mean(tensor)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return all_reduce_mean(grad)
