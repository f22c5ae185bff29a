import tensorflow as tf

from migrator.helpers.tensorflow.all_reduce_mean import all_reduce_mean
from migrator.helpers.tensorflow.gather_from_workers import gather_from_workers
from migrator.helpers.tensorflow.rank import rank


@tf.autograph.experimental.do_not_convert
def all_gather_cat(tensor: tf.Tensor) -> tf.Tensor:
    """Return the tensors of all workers one behind another; their first dimensions may differ."""

    @tf.custom_gradient
    def gathered(local):
        def own_rows(gradient):
            ends = tf.cumsum(gather_from_workers(tf.shape(local)[:1]))
            return all_reduce_mean(gradient)[ends[rank()] - tf.shape(local)[0] : ends[rank()]]

        return gather_from_workers(local), own_rows

    return gathered(tf.convert_to_tensor(tensor))
