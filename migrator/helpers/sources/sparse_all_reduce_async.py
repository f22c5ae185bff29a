from typing import Any, Callable

import torch
import torch.distributed as dist

from migrator.helpers.all_gather_cat import all_gather_async
from migrator.helpers.synchronize import synchronize


def sparse_all_reduce_async(tensor: torch.Tensor, op: dist.ReduceOp) -> Callable:  # without group
def sparse_all_reduce_async(tensor: torch.Tensor, op: dist.ReduceOp, group: Any = None) -> Callable:  # with group
    """Start to gather the sparse ``tensor`` of all ranks; return the function that gives their sum or mean."""
    divisor = dist.get_world_size() if op == dist.ReduceOp.AVG else 1  # without group
    divisor = dist.get_world_size(group) if op == dist.ReduceOp.AVG else 1  # with group
    indices = all_gather_async(tensor._indices().t())  # without group
    values = all_gather_async(tensor._values())  # without group
    indices = all_gather_async(tensor._indices().t(), group)  # with group
    values = all_gather_async(tensor._values(), group)  # with group

    def finish() -> torch.Tensor:
        rows = synchronize(values) / divisor if divisor > 1 else synchronize(values)
        return torch.sparse_coo_tensor(synchronize(indices).t(), rows, tensor.shape, check_invariants=False)

    return finish
