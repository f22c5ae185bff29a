import torch
import torch.distributed as dist


def all_gather_cat(tensor: torch.Tensor) -> torch.Tensor:
    """Concatenate ``tensor`` from all ranks along its first dimension, whose length may differ."""
    tensor = tensor.detach().contiguous()
    length = torch.tensor([len(tensor)], device=tensor.device)
    lengths = [torch.empty_like(length) for _ in range(dist.get_world_size())]
    dist.all_gather(lengths, length)
    parts = [tensor.new_empty(int(n), *tensor.shape[1:]) for n in lengths]
    parts[dist.get_rank()] = tensor
    for src, part in enumerate(parts):
        dist.broadcast(part.flatten().view(torch.uint8), src)
    return torch.cat(parts)
