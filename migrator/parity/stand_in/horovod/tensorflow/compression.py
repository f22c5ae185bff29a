"""What may become of tensors on their way between ranks."""

from __future__ import annotations

import tensorflow as tf


class Compressor:
    """Makes a tensor smaller before it is reduced, and restores it afterwards."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, tf.DType | None] | None:
        """Return the smaller tensor, and what is needed to restore it."""

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: tf.DType | None) -> tf.Tensor | None:
        """Restore a tensor."""


class NoneCompressor(Compressor):
    """Leaves tensors as they are."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, None]:
        return tensor, None

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: tf.DType | None) -> tf.Tensor:
        return tensor


class FP16Compressor(Compressor):
    """Sends floating point numbers as 16 bits."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, tf.DType]:
        return (tf.cast(tensor, tf.float16) if tensor.dtype.is_floating else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: tf.DType) -> tf.Tensor:
        return tf.cast(tensor, ctx) if ctx.is_floating else tensor


class Compression:
    """The compressions that Horovod offers."""

    none = NoneCompressor
    fp16 = FP16Compressor
