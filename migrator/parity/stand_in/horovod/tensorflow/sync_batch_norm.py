"""Batch normalization with the statistics of all ranks' batches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod.tensorflow.mpi_ops import Sum, _allreduce, size


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """Batch normalization whose mean and variance are those over all ranks."""

    def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        kwargs["name"] = kwargs.get("name") or "sync_batch_normalization"
        if hasattr(tf.keras.layers.BatchNormalization, "_fused_batch_norm"):  # Keras 3 knows no fusion
            kwargs["fused"] = fused
        super().__init__(**kwargs)

    def _moments(self, *args: Any, **kwargs: Any) -> tuple[tf.Tensor, tf.Tensor]:
        mean, variance = super()._moments(*args, **kwargs)
        if size() == 1:
            return mean, variance
        moments = _allreduce(tf.stack([mean, variance + tf.math.square(mean)]), op=Sum) / size()
        mean, mean_of_square = tf.unstack(moments)
        return mean, mean_of_square - tf.math.square(mean)
