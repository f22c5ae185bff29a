from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_gather_cat import all_gather_cat
from migrator.helpers.reduce_scatter import reduce_scatter


class ReduceScatterOverRanks(torch.autograd.Function):
    """This rank's rows of a reduction over all ranks; the gradient is gathered from all ranks' rows."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, op: dist.ReduceOp) -> torch.Tensor:  # without options
        ctx.op = op  # without options
        return reduce_scatter(tensor, op)  # without options
    def forward(ctx: Any, tensor: torch.Tensor, op: dist.ReduceOp, options: Any = None) -> torch.Tensor:  # with options
        ctx.op, ctx.options = op, options or {}  # with options
        return reduce_scatter(tensor, op, **ctx.options)  # with options

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        group = ctx.options.get("group")  # with group
        factor = dist.get_world_size() if ctx.op == dist.ReduceOp.SUM else 1  # without group
        factor = dist.get_world_size(group) if ctx.op == dist.ReduceOp.SUM else 1  # with group
        factor *= ctx.options.get("prescale_factor", 1) * ctx.options.get("postscale_factor", 1)  # with scale
        sent = (grad.to(ctx.options.get("compression") or grad.dtype) * factor).to(grad.dtype)  # with compression
        return all_gather_cat(grad * factor), None  # without options
        return all_gather_cat(grad * factor), None, None  # with options, without group, without compression
        return all_gather_cat(grad * factor, group), None, None  # with group, without compression
        return all_gather_cat(sent), None, None  # with compression, without group
        return all_gather_cat(sent, group), None, None  # with compression, with group
