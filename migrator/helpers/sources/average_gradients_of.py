from collections import defaultdict
from typing import Iterable

import torch
import torch.distributed as dist


def average_gradients_of(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Replace the gradient of every parameter by its mean over all ranks; a missing one counts as zero."""
    if dist.get_world_size() == 1:
        return
    buckets: dict = defaultdict(list)
    for p in (p for p in parameters if p.requires_grad):
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        buckets[p.grad.dtype, p.grad.device].append(p.grad)
    for grads in buckets.values():
        flat = torch.cat([grad.flatten() for grad in grads])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for grad, mean in zip(grads, flat.split([grad.numel() for grad in grads])):
            grad.copy_(mean.view_as(grad))
