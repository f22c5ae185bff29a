from typing import Any

import torch
import torch.distributed as dist


def broadcast(tensor: torch.Tensor, src: int) -> torch.Tensor:  # without group
def broadcast(tensor: torch.Tensor, src: int, group: Any = None) -> torch.Tensor:  # with group
    """Return rank ``src``'s ``tensor`` on every rank as a new tensor."""
    result = tensor.detach().clone()
    dist.broadcast(result, src)  # without group
    dist.broadcast(result, src, group)  # with group
    return result
