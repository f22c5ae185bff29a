import tensorflow as tf

from migrator.helpers.tensorflow.join_workers import join_workers


def gather_from_workers(tensor: tf.Tensor) -> tf.Tensor:
    """Return the tensors of all workers one behind another; their first dimensions may differ."""

    def gather(local: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_replica_context().all_gather(tf.identity(local), axis=0)

    is_known = tensor.dtype in (tf.float16, tf.float32, tf.float64, tf.int32, tf.int64)
    sent = tensor if is_known else tf.cast(tensor, tf.float32 if tensor.dtype.is_floating else tf.int64)
    return tf.cast(join_workers().run(gather, args=(sent,)), tensor.dtype)
