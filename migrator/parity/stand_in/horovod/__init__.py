"""Horovod's API over torch.distributed, for programs that have not been migrated yet."""

from horovod.runner import run as run

__version__ = "0.28.1+stand-in"
