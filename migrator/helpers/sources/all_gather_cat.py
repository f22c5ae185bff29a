from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.handle import Handle


def all_gather_cat(tensor: torch.Tensor) -> torch.Tensor:  # without asynchronous, without group
def all_gather_cat(tensor: torch.Tensor, group: Any = None) -> torch.Tensor:  # without asynchronous, with group
def all_gather_async(tensor: torch.Tensor) -> Handle:  # with asynchronous, without group
def all_gather_async(tensor: torch.Tensor, group: Any = None) -> Handle:  # with asynchronous, with group
    """Concatenate ``tensor`` from all ranks along its first dimension, whose length may differ."""  # without asynchronous
    """Start to concatenate ``tensor`` from all ranks along its first dimension, whose length may differ."""  # with asynchronous
    tensor = tensor.detach().contiguous()
    length = torch.tensor([len(tensor)], device=tensor.device)
    lengths = [torch.empty_like(length) for _ in range(dist.get_world_size())]  # without group
    lengths = [torch.empty_like(length) for _ in range(dist.get_world_size(group))]  # with group
    dist.all_gather(lengths, length)  # without group
    dist.all_gather(lengths, length, group)  # with group
    parts = [tensor.new_empty(int(n), *tensor.shape[1:]) for n in lengths]
    parts[dist.get_rank()] = tensor  # without group
    parts[dist.get_rank(group)] = tensor  # with group
    works = []  # with asynchronous
    for src, part in enumerate(parts):
        src = dist.get_global_rank(group or dist.group.WORLD, src)  # with group
        dist.broadcast(part.flatten().view(torch.uint8), src)  # without asynchronous, without group
        dist.broadcast(part.flatten().view(torch.uint8), src, group)  # without asynchronous, with group
        works.append(dist.broadcast(part.flatten().view(torch.uint8), src, async_op=True))  # with asynchronous, without group
        works.append(dist.broadcast(part.flatten().view(torch.uint8), src, group, async_op=True))  # with asynchronous, with group
    return torch.cat(parts)  # without asynchronous
    return Handle(works, lambda: torch.cat(parts))  # with asynchronous
