"""What may become of tensors on their way between ranks."""

from __future__ import annotations

import torch


class Compressor:
    """Makes a tensor smaller before it is reduced, and restores it afterwards."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype | None] | None:
        """Return the smaller tensor, and what is needed to restore it."""

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype | None) -> torch.Tensor | None:
        """Restore a tensor."""


class NoneCompressor(Compressor):
    """Leaves tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, None]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype | None) -> torch.Tensor:
        return tensor


class FP16Compressor(Compressor):
    """Sends floating point numbers as 16 bits."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        smaller = tensor.type(torch.float16) if tensor.dtype.is_floating_point else tensor
        return smaller, tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype | None) -> torch.Tensor:
        return tensor.type(ctx) if ctx.is_floating_point else tensor  # type: ignore[union-attr]  # Horovod fails on None too


class Compression:
    """The compressions that Horovod offers."""

    none = NoneCompressor
    fp16 = FP16Compressor
