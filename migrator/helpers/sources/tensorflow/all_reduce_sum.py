import tensorflow as tf

from migrator.helpers.tensorflow.reduce_over_workers import reduce_over_workers


@tf.autograph.experimental.do_not_convert
def all_reduce_sum(tensor: tf.Tensor) -> tf.Tensor:  # without compression
    """Return the sum of ``tensor`` over all workers."""  # without compression
def all_reduce_sum(tensor: tf.Tensor, compression: tf.DType | None = None) -> tf.Tensor:  # with compression
    """Return the sum of ``tensor`` over all workers, sent as ``compression``."""  # with compression

    @tf.custom_gradient
    def total(local):
        (reduced,) = reduce_over_workers("SUM", [local])  # without compression
        (reduced,) = reduce_over_workers("SUM", [local], compression)  # with compression
        return reduced, all_reduce_sum  # without compression
        return reduced, lambda gradient: all_reduce_sum(gradient, compression)  # with compression

    if isinstance(tensor, tf.IndexedSlices):  # with slices
        return reduce_over_workers("SUM", [tensor])[0]  # with slices
    return total(tf.convert_to_tensor(tensor))
