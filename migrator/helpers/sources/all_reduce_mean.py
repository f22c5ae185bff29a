import torch
import torch.distributed as dist


def all_reduce_mean(tensor: torch.Tensor) -> torch.Tensor:
    """Return the mean of ``tensor`` over all ranks as a new tensor; integers truncate toward zero."""
    mean = tensor.detach().clone()
    dist.all_reduce(mean)
    rounding = None if mean.is_floating_point() else "trunc"
    return torch.div(mean, dist.get_world_size(), rounding_mode=rounding)
