from typing import Any

import torch
import torch.distributed as dist


def broadcast_(tensor: torch.Tensor, src: int) -> torch.Tensor:  # without group
def broadcast_(tensor: torch.Tensor, src: int, group: Any = None) -> torch.Tensor:  # with group
    """Fill ``tensor`` with that of rank ``src``, and return it."""
    dist.broadcast(tensor.detach(), src)  # without group
    dist.broadcast(tensor.detach(), src, group)  # with group
    return tensor
