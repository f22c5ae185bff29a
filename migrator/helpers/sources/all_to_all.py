from typing import Any

import torch
import torch.distributed as dist

from migrator.helpers.handle import Handle


def all_to_all(tensor: torch.Tensor, splits: Any = None) -> tuple:  # without asynchronous, without group
def all_to_all(tensor: torch.Tensor, splits: Any = None, group: Any = None) -> tuple:  # without asynchronous, with group
def all_to_all_async(tensor: torch.Tensor, splits: Any = None) -> Handle:  # with asynchronous, without group
def all_to_all_async(tensor: torch.Tensor, splits: Any = None, group: Any = None) -> Handle:  # with asynchronous, with group
    """Send each rank its rows of ``tensor``; return those received, and how many came from each rank."""  # without asynchronous
    """Start to send each rank its rows of ``tensor``; the result is those received, and how many by rank."""  # with asynchronous
    size = dist.get_world_size()  # without group
    size = dist.get_world_size(group)  # with group
    if splits is None:
        if len(tensor) % size:
            raise ValueError(f"{len(tensor)} rows cannot be split evenly over {size} ranks")
        splits = [len(tensor) // size] * size
    sent = torch.as_tensor(splits, dtype=torch.int32)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)  # without group
    dist.all_to_all_single(received, sent, group=group)  # with group
    rows = tensor.detach()[: int(sent.sum())].contiguous()
    result = rows.new_empty(int(received.sum()), *rows.shape[1:])
    dist.all_to_all_single(result, rows, received.tolist(), sent.tolist())  # without asynchronous, without group
    dist.all_to_all_single(result, rows, received.tolist(), sent.tolist(), group)  # without asynchronous, with group
    work = dist.all_to_all_single(result, rows, received.tolist(), sent.tolist(), async_op=True)  # with asynchronous, without group
    work = dist.all_to_all_single(result, rows, received.tolist(), sent.tolist(), group, async_op=True)  # with asynchronous, with group
    return result, received  # without asynchronous
    return Handle([work], lambda: (result, received))  # with asynchronous
