from collections import defaultdict
from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.all_gather_cat import all_gather_cat
from migrator.helpers.count_training import count_training


def average_gradients(optimizer: torch.optim.Optimizer, *_: object) -> None:  # without compression, without group, without sum
def average_gradients(optimizer: torch.optim.Optimizer, *_: object, group: Any = None) -> None:  # without compression, with group, without sum
def average_gradients(optimizer: torch.optim.Optimizer, *_: object, compression: Any = None) -> None:  # with compression, without group, without sum
def average_gradients(optimizer: torch.optim.Optimizer, *_: object, compression: Any = None, group: Any = None) -> None:  # with compression, with group, without sum
def sum_gradients(optimizer: torch.optim.Optimizer, *_: object) -> None:  # without compression, without group, with sum
def sum_gradients(optimizer: torch.optim.Optimizer, *_: object, group: Any = None) -> None:  # without compression, with group, with sum
def sum_gradients(optimizer: torch.optim.Optimizer, *_: object, compression: Any = None) -> None:  # with compression, without group, with sum
def sum_gradients(optimizer: torch.optim.Optimizer, *_: object, compression: Any = None, group: Any = None) -> None:  # with compression, with group, with sum
    """Replace every gradient by its mean over all ranks; a missing one counts as zero."""  # without compression, without sum
    """Replace every gradient by its mean over all ranks, sent as dtype ``compression``."""  # with compression, without sum
    """Replace every gradient by its sum over all ranks; a missing one counts as zero."""  # without compression, with sum
    """Replace every gradient by its sum over all ranks, sent as dtype ``compression``."""  # with compression, with sum
    if dist.get_world_size() == 1:  # without group
    if dist.get_world_size(group) <= 1:  # with group
        return
    count_training(True)  # with join
    buckets: dict = defaultdict(list)
    for p in (p for group in optimizer.param_groups for p in group["params"] if p.requires_grad):
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        if p.grad.is_sparse:  # with sparse
            indices = all_gather_cat(p.grad._indices().t()).t()  # with sparse
            values = all_gather_cat(p.grad._values()) / dist.get_world_size()  # with sparse, without sum
            values = all_gather_cat(p.grad._values())  # with sparse, with sum
            p.grad = torch.sparse_coo_tensor(indices, values, p.shape, check_invariants=False)  # with sparse
            continue  # with sparse
        if p.grad.is_sparse:  # with dense
            p.grad = p.grad.to_dense()  # with dense
        buckets[p.grad.dtype, p.grad.device].append(p.grad)
    for grads in buckets.values():
        flat = torch.cat([grad.flatten() for grad in grads])
        if compression is not None and flat.is_floating_point():  # with compression
            flat = flat.to(compression)  # with compression
        dist.all_reduce(flat)  # without group
        dist.all_reduce(flat, group=group)  # with group
        flat /= dist.get_world_size()  # without sum, without group
        flat /= dist.get_world_size(group)  # without sum, with group
        for grad, reduced in zip(grads, flat.split([grad.numel() for grad in grads])):
            grad.copy_(reduced.view_as(grad))
