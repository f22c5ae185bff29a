import torch
import torch.distributed as dist


def all_reduce(tensor: torch.Tensor, op: dist.ReduceOp) -> torch.Tensor:
    """Return ``tensor`` reduced over all ranks by ``op`` as a new tensor."""
    result = tensor.detach().clone()
    dist.all_reduce(result, op)
    return result
