from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.handle import Handle


def broadcast_async(tensor: torch.Tensor, src: int) -> Handle:  # without group
def broadcast_async(tensor: torch.Tensor, src: int, group: Any = None) -> Handle:  # with group
    """Start to fill ``tensor`` with that of rank ``src``."""
    work = dist.broadcast(tensor.detach(), src, async_op=True)  # without group
    work = dist.broadcast(tensor.detach(), src, group, async_op=True)  # with group
    return Handle([work], lambda: tensor)
