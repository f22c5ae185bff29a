import tensorflow as tf

from migrator.helpers.tensorflow.gather_from_workers import gather_from_workers
from migrator.helpers.tensorflow.rank import rank
from migrator.helpers.tensorflow.size import size


@tf.autograph.experimental.do_not_convert
def all_to_all(tensor: tf.Tensor, splits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Send each worker its rows of ``tensor``; return those received, and how many came from each worker."""
    sizes = tf.reshape(gather_from_workers(splits), [size(), size()])

    @tf.custom_gradient
    def received(local):
        parts = tf.split(gather_from_workers(local), tf.reshape(sizes, [-1]), num=size() ** 2)
        return tf.concat(parts[rank() :: size()], 0), lambda gradient: all_to_all(gradient, sizes[:, rank()])[0]

    return received(tf.convert_to_tensor(tensor)), sizes[:, rank()]
