import atexit
import os

import torch
import torch.distributed as dist

from migrator.helpers.destroy_process_group import destroy_process_group


def init_process_group() -> None:
    """Join the launcher's process group, to leave it at exit; started without a launcher, train alone."""
    if dist.is_initialized():
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        for variable in ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"):
            if int(os.environ.get(variable, 1)) > 1:
                raise RuntimeError(f"{variable} asks for several processes: start them with torchrun")
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    atexit.register(destroy_process_group)
