import torch.distributed as dist


def destroy_process_group() -> None:
    """Leave the process group; without one, do nothing."""
    if dist.is_initialized():
        dist.destroy_process_group()
