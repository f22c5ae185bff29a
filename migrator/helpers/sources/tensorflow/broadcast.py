import tensorflow as tf

from migrator.helpers.tensorflow.all_reduce_mean import all_reduce_mean
from migrator.helpers.tensorflow.rank import rank
from migrator.helpers.tensorflow.reduce_over_workers import reduce_over_workers


@tf.autograph.experimental.do_not_convert
def broadcast(tensor: tf.Tensor, root_rank: int) -> tf.Tensor:
    """Return the value that ``tensor`` has on worker ``root_rank``."""

    def own(value):
        return value if rank() == root_rank else tf.zeros_like(value)

    @tf.custom_gradient
    def received(local):
        (value,) = reduce_over_workers("SUM", [own(local)])
        return value, lambda gradient: own(all_reduce_mean(gradient))

    return received(tf.convert_to_tensor(tensor))
