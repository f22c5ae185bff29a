from typing import Any

import torch.distributed as dist


def broadcast_object(value: Any, src: int = 0) -> Any:  # without group
def broadcast_object(value: Any, src: int = 0, group: Any = None) -> Any:  # with group
    """Return rank ``src``'s ``value`` on every rank."""
    box = [value]
    dist.broadcast_object_list(box, src)  # without group
    dist.broadcast_object_list(box, src, group)  # with group
    return box[0]
