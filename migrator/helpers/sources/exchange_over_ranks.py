from typing import Any

import torch

from migrator.helpers.all_to_all import all_to_all


class ExchangeOverRanks(torch.autograd.Function):
    """Rows sent to and received from all ranks; the gradient goes back the way that the rows came."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any = None) -> tuple:  # without group
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any = None, group: Any = None) -> tuple:  # with group
        rows, ctx.received = all_to_all(tensor, splits)  # without group
        rows, ctx.received = all_to_all(tensor, splits, group)  # with group
        ctx.group = group  # with group
        ctx.mark_non_differentiable(ctx.received)
        return rows, ctx.received

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple:
        return all_to_all(grad, ctx.received)[0], None  # without group
        return all_to_all(grad, ctx.received, ctx.group)[0], None, None  # with group
