"""What emitted PyTorch code imports."""

from migrator.api import Import

DIST = Import("torch.distributed", alias="dist")
DDP = Import("torch.nn.parallel", "DistributedDataParallel", "DDP")
OS = Import("os")
PARTIAL = Import("functools", "partial")
TORCH = Import("torch")
