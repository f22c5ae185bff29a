import torch


def scale_(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """Multiply ``tensor`` by ``factor`` in place and return it; integers truncate toward zero."""
    if factor == 1:
        return tensor
    return tensor.mul_(factor) if tensor.is_floating_point() else tensor.copy_(tensor.double() * factor)
