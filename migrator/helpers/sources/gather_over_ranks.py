from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_gather_cat import all_gather_cat
from migrator.helpers.all_reduce_mean import all_reduce_mean


class GatherOverRanks(torch.autograd.Function):
    """All ranks' tensors, concatenated; the gradient is the mean over ranks of the own slice's."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:  # without group
        lengths = all_gather_cat(torch.tensor([len(tensor)], device=tensor.device)).tolist()  # without group
        ctx.start, ctx.length = sum(lengths[: dist.get_rank()]), len(tensor)  # without group
        return all_gather_cat(tensor)  # without group
    def forward(ctx: Any, tensor: torch.Tensor, group: Any = None) -> torch.Tensor:  # with group
        lengths = all_gather_cat(torch.tensor([len(tensor)], device=tensor.device), group).tolist()  # with group
        ctx.start, ctx.length, ctx.group = sum(lengths[: dist.get_rank(group)]), len(tensor), group  # with group
        return all_gather_cat(tensor, group)  # with group

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # without group
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:  # with group
        return all_reduce_mean(grad).narrow(0, ctx.start, ctx.length)  # without group
        return all_reduce_mean(grad, ctx.group).narrow(0, ctx.start, ctx.length), None  # with group
