"""Horovod that sends nothing, so that each rank trains by itself: what a processor makes of a program's arithmetic."""

import contextlib
import os

import torch

Sum, Max = "Sum", "Max"


def init():
    """Do nothing."""


def rank():
    """The launcher's rank."""
    return int(os.environ["RANK"])


def local_rank():
    """The same."""
    return rank()


def size():
    """The launcher's world size."""
    return int(os.environ["WORLD_SIZE"])


def allreduce(tensor, name=None, op=None):
    """A copy."""
    return tensor.clone()


def allreduce_(tensor, name=None, op=None):
    """The tensor as it is."""
    return tensor


def allgather(tensor, name=None):
    """A copy."""
    return tensor.clone()


def allgather_object(value, name=None):
    """The own value alone."""
    return [value]


def broadcast_(tensor, root_rank, name=None):
    """The tensor as it is."""
    return tensor


def broadcast_object(value, root_rank=0, name=None):
    """The value, or a rate to learn at for ranks that were to be told one."""
    return {"lr": 0.1} if value is None else value


def broadcast_parameters(params, root_rank):
    """Do nothing."""


def broadcast_optimizer_state(optimizer, root_rank):
    """Do nothing."""


def join():
    """Do nothing."""


def DistributedOptimizer(optimizer, named_parameters=None, backward_passes_per_step=1):  # noqa: N802
    """The optimizer itself, with gradients for all its parameters as Horovod gives them."""
    optimizer.synchronize = lambda: _fill(optimizer)
    optimizer.skip_synchronize = contextlib.nullcontext
    optimizer.register_step_pre_hook(lambda *_: _fill(optimizer))
    return optimizer


def _fill(optimizer):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
