import io

import torch
import torch.distributed as dist


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, src: int = 0) -> None:
    """Give every rank the optimizer state and options of rank ``src``."""
    data = io.BytesIO()
    if dist.get_rank() == src:
        torch.save(optimizer.state_dict(), data)
    box = [data.getvalue()]
    dist.broadcast_object_list(box, src)
    if dist.get_rank() != src:
        state = torch.load(io.BytesIO(box[0]), map_location="cpu", weights_only=True)
        optimizer.load_state_dict(state)
