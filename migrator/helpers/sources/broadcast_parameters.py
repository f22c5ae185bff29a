from typing import Any

import torch.distributed as dist


def broadcast_parameters(parameters: Any, src: int = 0) -> None:  # without group
def broadcast_parameters(parameters: Any, src: int = 0, group: Any = None) -> None:  # with group
    """Copy the tensors of a state_dict, or of (name, tensor) pairs, from rank ``src`` to all ranks."""
    for tensor in dict(parameters).values():
        dist.broadcast(tensor.detach(), src)  # without group
        dist.broadcast(tensor.detach(), src, group)  # with group
