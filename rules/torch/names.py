"""Symbols that several rules ask for, and what emitted PyTorch code imports."""

from migrator.api import Import

DIST = Import("torch.distributed", alias="dist")
DDP = Import("torch.nn.parallel", "DistributedDataParallel", "DDP")
OS = Import("os")
PARTIAL = Import("functools", "partial")
TORCH = Import("torch")

WRAPPER = "horovod.torch.DistributedOptimizer"
BROADCAST = "horovod.torch.broadcast_parameters"
BROADCAST_STATE = "horovod.torch.broadcast_optimizer_state"
UNWRAP = "torch.nn.parallel.DistributedDataParallel.module"
