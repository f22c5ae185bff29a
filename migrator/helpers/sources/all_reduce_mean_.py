from typing import Any

import torch
import torch.distributed as dist


def all_reduce_mean_(tensor: torch.Tensor) -> torch.Tensor:  # without group
def all_reduce_mean_(tensor: torch.Tensor, group: Any = None) -> torch.Tensor:  # with group
    """Replace ``tensor`` by its mean over all ranks, and return it; integers truncate toward zero."""
    mean = tensor.detach()
    dist.all_reduce(mean)  # without group
    dist.all_reduce(mean, group=group)  # with group
    rounding = None if mean.is_floating_point() else "trunc"
    mean.div_(dist.get_world_size(), rounding_mode=rounding)  # without group
    mean.div_(dist.get_world_size(group), rounding_mode=rounding)  # with group
    return tensor
