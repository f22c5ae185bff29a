import torch
import torch.distributed as dist


def count_training(trains: bool) -> int:
    """Return how many ranks still train; every rank calls this before each reduction of gradients."""
    count = torch.tensor([int(trains)])
    dist.all_reduce(count)
    return int(count)
