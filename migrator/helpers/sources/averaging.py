from functools import partial
from typing import Any

import torch

from migrator.helpers.reduce_gradients import average_gradients  # without sum
from migrator.helpers.reduce_gradients import sum_gradients  # with sum


def averaging(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:  # without compression
def averaging(optimizer: torch.optim.Optimizer, compression: Any) -> torch.optim.Optimizer:  # with compression
    """Reduce gradients over all ranks before each step of ``optimizer``, which is returned."""
    optimizer.register_step_pre_hook(average_gradients)  # without sum, without compression
    optimizer.register_step_pre_hook(sum_gradients)  # with sum, without compression
    optimizer.register_step_pre_hook(partial(average_gradients, compression=compression))  # without sum, with compression
    optimizer.register_step_pre_hook(partial(sum_gradients, compression=compression))  # with sum, with compression
    return optimizer
