import tensorflow as tf

from migrator.helpers.tensorflow.rank import rank
from migrator.helpers.tensorflow.size import size


@tf.autograph.experimental.do_not_convert
def rows_of_worker(reduced: tf.Tensor) -> tf.Tensor:
    """Return this worker's rows of what all have reduced; its gradient is Horovod's, once for each worker."""

    @tf.custom_gradient
    def for_each_worker(whole):
        return tf.identity(whole), lambda gradient: gradient * tf.cast(size(), gradient.dtype)

    rows, left = tf.shape(reduced)[0] // size(), tf.shape(reduced)[0] % size()
    start = rank() * rows + tf.minimum(rank(), left)
    return for_each_worker(reduced)[start : start + rows + tf.cast(rank() < left, tf.int32)]
