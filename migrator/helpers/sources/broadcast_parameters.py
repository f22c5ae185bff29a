from typing import Any

import torch.distributed as dist


def broadcast_parameters(parameters: Any, src: int = 0) -> None:
    """Copy the tensors of a state_dict, or of (name, tensor) pairs, from rank ``src`` to all ranks."""
    for tensor in dict(parameters).values():
        dist.broadcast(tensor.detach(), src)
