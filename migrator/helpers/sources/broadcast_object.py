from typing import Any

import torch.distributed as dist


def broadcast_object(value: Any, src: int = 0) -> Any:
    """Return rank ``src``'s ``value`` on every rank."""
    box = [value]
    dist.broadcast_object_list(box, src)
    return box[0]
