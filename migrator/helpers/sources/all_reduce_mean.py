from typing import Any

import torch
import torch.distributed as dist


def all_reduce_mean(tensor: torch.Tensor) -> torch.Tensor:  # without group
def all_reduce_mean(tensor: torch.Tensor, group: Any = None) -> torch.Tensor:  # with group
    """Return the mean of ``tensor`` over all ranks as a new tensor; integers truncate toward zero."""
    mean = tensor.detach().clone()
    dist.all_reduce(mean)  # without group
    dist.all_reduce(mean, group=group)  # with group
    rounding = None if mean.is_floating_point() else "trunc"
    return torch.div(mean, dist.get_world_size(), rounding_mode=rounding)  # without group
    return torch.div(mean, dist.get_world_size(group), rounding_mode=rounding)  # with group
