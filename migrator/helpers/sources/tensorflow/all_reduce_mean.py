import tensorflow as tf

from migrator.helpers.tensorflow.reduce_over_workers import reduce_over_workers
from migrator.helpers.tensorflow.size import size


@tf.autograph.experimental.do_not_convert
def all_reduce_mean(tensor: tf.Tensor) -> tf.Tensor:  # without compression
    """Return the mean of ``tensor`` over all workers; integers truncate toward zero."""  # without compression
def all_reduce_mean(tensor: tf.Tensor, compression: tf.DType | None = None) -> tf.Tensor:  # with compression
    """Return the mean of ``tensor`` over all workers, sent as ``compression``; integers truncate toward zero."""  # with compression

    @tf.custom_gradient
    def mean(local):
        (reduced,) = reduce_over_workers("MEAN", [local])  # without compression
        (reduced,) = reduce_over_workers("MEAN", [local], compression)  # with compression
        return reduced, all_reduce_mean  # without compression
        return reduced, lambda gradient: all_reduce_mean(gradient, compression)  # with compression

    if isinstance(tensor, tf.IndexedSlices):  # with slices
        return reduce_over_workers("MEAN", [tensor])[0]  # with slices
    tensor = tf.convert_to_tensor(tensor)
    if tensor.dtype.is_integer:
        (total,) = reduce_over_workers("SUM", [tensor])
        return tf.truncatediv(total, tf.cast(size(), tensor.dtype))
    return mean(tensor)
