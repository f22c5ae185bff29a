import tensorflow as tf

from migrator.helpers.tensorflow.reduce_over_workers import reduce_over_workers


class AverageMetrics(tf.keras.callbacks.Callback):
    """Average the logs of an epoch over all workers, for the callbacks behind this one and for the history."""

    def on_epoch_end(self, epoch, logs=None):
        names = sorted(logs or {})
        means = reduce_over_workers("MEAN", [tf.constant(logs[name], tf.float32) for name in names])
        (logs or {}).update(zip(names, map(float, means)))
