from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_reduce import all_reduce


def all_reduce_(tensor: torch.Tensor, op: dist.ReduceOp) -> torch.Tensor:  # without options
def all_reduce_(tensor: torch.Tensor, op: dist.ReduceOp, **options: Any) -> torch.Tensor:  # with options
    """Reduce ``tensor`` over all ranks by ``op`` in place, and return it."""
    tensor.detach().copy_(all_reduce(tensor, op))  # without options
    tensor.detach().copy_(all_reduce(tensor, op, **options))  # with options
    return tensor
