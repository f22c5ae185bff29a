"""Batch normalization with the statistics of all ranks' batches."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from horovod.torch.mpi_ops import Sum, allgather_async, allreduce_async, size, synchronize

NAME = "sync_batch_norm"


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of any dimension; in training it takes inputs on a GPU only, as Horovod's does."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _run_bn(self, input: torch.Tensor) -> torch.Tensor:
        uses_batch = self.training or not self.track_running_stats
        statistics = (self.running_mean, self.running_var)
        return torch.nn.functional.batch_norm(
            input, *statistics, self.weight, self.bias, uses_batch, self.momentum or 0.0, self.eps
        )

    def _maybe_run_sync_bn(self, input: torch.Tensor) -> torch.Tensor:
        if size() == 1:
            return self._run_bn(input)
        statistics = (self.running_mean, self.running_var)
        return _SyncBatchNorm.apply(input, self.weight, self.bias, *statistics, self.eps, self.momentum)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not input.is_cuda:
            raise ValueError("SyncBatchNorm expected input tensor to be on GPU")
        self._check_input_dim(input)
        if self.training and self.track_running_stats:
            self.num_batches_tracked = self.num_batches_tracked + 1
        if not self.training and self.track_running_stats:
            return self._run_bn(input)
        return self._maybe_run_sync_bn(input)


class _SyncBatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        running_mean: torch.Tensor | None,
        running_var: torch.Tensor | None,
        eps: float,
        momentum: float,
    ) -> torch.Tensor:
        input = input.contiguous()
        mean, invstd = torch.batch_norm_stats(input, eps)
        own = {"count": torch.tensor([input.numel() // input.size(1)]), "mean": mean, "invstd": invstd}
        handles = [allgather_async(value.unsqueeze(0), name=f"{NAME}.{name}") for name, value in own.items()]
        counts, means, invstds = map(synchronize, handles)
        weights = counts.view(-1).float().to(input.device)
        mean, invstd = torch.batch_norm_gather_stats_with_counts(
            input, means, invstds, running_mean, running_var, momentum, eps, weights
        )
        ctx.save_for_backward(input, weight, mean, invstd, counts)
        return torch.batch_norm_elemt(input, weight, bias, mean, invstd, eps)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> Any:
        grad_output = grad_output.contiguous()
        input, weight, mean, invstd, counts = ctx.saved_tensors
        needed = ctx.needs_input_grad[:3]
        sum_dy, sum_dy_xmu, grad_weight, grad_bias = torch.batch_norm_backward_reduce(
            grad_output, input, mean, invstd, weight, *needed
        )
        grad_input = None
        if needed[0]:
            sums = {"sum_dy": sum_dy, "sum_dy_xmu": sum_dy_xmu}
            handles = [allreduce_async(value, op=Sum, name=f"{NAME}.{name}") for name, value in sums.items()]
            counts = counts.to(dtype=torch.int, device=grad_output.device)
            grad_input = torch.batch_norm_backward_elemt(
                grad_output, input, mean, invstd, weight, *map(synchronize, handles), counts
            )
        grad_weight = grad_weight if weight is not None and needed[1] else None
        grad_bias = grad_bias if weight is not None and needed[2] else None
        return grad_input, grad_weight, grad_bias, None, None, None, None
