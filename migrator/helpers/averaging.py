import torch

from migrator.helpers.reduce_gradients import average_gradients  # without sum
from migrator.helpers.reduce_gradients import sum_gradients  # with sum


def averaging(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Reduce gradients over all ranks before each step of ``optimizer``, which is returned."""
    optimizer.register_step_pre_hook(average_gradients)  # without sum
    optimizer.register_step_pre_hook(sum_gradients)  # with sum
    return optimizer
