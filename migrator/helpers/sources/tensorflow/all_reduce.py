from collections.abc import Callable

import tensorflow as tf

from migrator.helpers.tensorflow.all_gather_cat import all_gather_cat


@tf.autograph.experimental.do_not_convert
def all_reduce(tensor: tf.Tensor, reduce: Callable[..., tf.Tensor]) -> tf.Tensor:
    """Return ``tensor`` reduced over all workers by ``reduce``, which takes an axis; its gradient is so, too."""

    @tf.custom_gradient
    def reduced(local):
        return reduce(all_gather_cat(local[tf.newaxis]), axis=0), lambda gradient: all_reduce(gradient, reduce)

    return reduced(tf.convert_to_tensor(tensor))
