from collections import Counter

import torch
import torch.distributed as dist

from migrator.helpers.count_training import count_training


def join(optimizer: torch.optim.Optimizer) -> int:
    """Answer the reductions of ranks that still train with zeros; return the last rank that stopped."""
    sizes: Counter = Counter()
    for p in (p for group in optimizer.param_groups for p in group["params"] if p.requires_grad):
        sizes[p.dtype, p.device] += p.numel()
    last = dist.get_rank()
    while count_training(False):
        last = -1
        for (dtype, device), size in sizes.items():
            dist.all_reduce(torch.zeros(size, dtype=dtype, device=device))
    result = torch.tensor([last])
    dist.all_reduce(result, dist.ReduceOp.MAX)
    return int(result)
