from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_gather_cat import all_gather_cat
from migrator.helpers.all_reduce_mean import all_reduce_mean


class GatherOverRanks(torch.autograd.Function):
    """All ranks' tensors, concatenated; the gradient is the mean over ranks of the own slice's."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        lengths = all_gather_cat(torch.tensor([len(tensor)], device=tensor.device)).tolist()
        ctx.start, ctx.length = sum(lengths[: dist.get_rank()]), len(tensor)
        return all_gather_cat(tensor)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return all_reduce_mean(grad).narrow(0, ctx.start, ctx.length)
