import tensorflow as tf

from migrator.helpers.tensorflow.all_reduce_sum import all_reduce_sum
from migrator.helpers.tensorflow.size import size


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """Batch normalization by the mean and variance of the batches of all workers, which must be of one size."""

    def __init__(self, **kwargs):  # without keras_3
        super().__init__(**kwargs)  # without keras_3
        self.fused = False  # without keras_3
  # without keras_3
    def _moments(self, inputs, *args, **kwargs):
        mean, variance = super()._moments(inputs, *args, **kwargs)
        mean, square = tf.unstack(all_reduce_sum(tf.stack([mean, variance + tf.square(mean)])) / size())
        return mean, square - tf.square(mean)
