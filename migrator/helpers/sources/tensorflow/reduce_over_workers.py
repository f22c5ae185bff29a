from collections.abc import Sequence

import tensorflow as tf

from migrator.helpers.tensorflow.join_workers import join_workers


def reduce_over_workers(operation: str, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:  # without compression
    """Return the sum, "SUM", or the mean, "MEAN", of each tensor over all workers."""  # without compression
def reduce_over_workers(  # with compression
    operation: str, tensors: Sequence[tf.Tensor], compression: tf.DType | None = None  # with compression
) -> list[tf.Tensor]:  # with compression
    """Return the sum, "SUM", or the mean, "MEAN", of each tensor over all workers, sent as ``compression``."""  # with compression

    def sent(tensor: tf.Tensor) -> tf.Tensor:
        if compression is not None and tensor.dtype.is_floating and not isinstance(tensor, tf.IndexedSlices):  # with compression
            return tf.cast(tensor, compression)  # with compression
        is_known = tensor.dtype.is_floating or tensor.dtype in (tf.int32, tf.int64)
        return tensor if is_known else tf.cast(tensor, tf.int64)

    def reduce(*local: tf.Tensor) -> dict[int, tf.Tensor]:
        own = [tf.nest.map_structure(tf.identity, each, expand_composites=True) for each in local]
        reduced = {}
        for dtype in dict.fromkeys(each.dtype for each in own):
            places = [place for place, each in enumerate(own) if each.dtype == dtype]
            alike = tf.distribute.get_replica_context().all_reduce(operation, [own[place] for place in places])
            reduced.update(zip(places, alike))
        return reduced

    reduced = join_workers().run(reduce, args=tuple(map(sent, tensors)))
    return [tf.cast(reduced[place], own.dtype) for place, own in enumerate(tensors)]
