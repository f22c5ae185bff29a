from collections.abc import Sequence

import tensorflow as tf

from migrator.helpers.tensorflow.reduce_over_workers import reduce_over_workers


def average_over_workers(gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:  # without sum, without options
def sum_over_workers(gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:  # with sum, without options
def average_over_workers(  # without sum, with options
def sum_over_workers(  # with sum, with options
    gradients: Sequence[tf.Tensor | None],  # with options
    compression: tf.DType | None = None,  # with compression
    sparse_as_dense: bool = False,  # with dense
) -> list[tf.Tensor | None]:  # with options
    """Return the mean of each gradient over all workers; None stays None."""  # without sum, without compression
    """Return the mean of each gradient over all workers, sent as ``compression``; None stays None."""  # without sum, with compression
    """Return the sum of each gradient over all workers; None stays None."""  # with sum, without compression
    """Return the sum of each gradient over all workers, sent as ``compression``; None stays None."""  # with sum, with compression
    present = [tf.convert_to_tensor(each) for each in gradients if each is not None]  # with keras_3
    present = [each for each in gradients if each is not None]  # without keras_3
    if sparse_as_dense:  # with dense, with keras_2
    if sparse_as_dense or hasattr(tf.keras, "ops"):  # with dense, without keras_2, without keras_3
    if hasattr(tf.keras, "ops"):  # without dense, without keras_2, without keras_3
        # Keras 3, which alone has these, does not add up duplicate rows of an embedding's gradient.  # without keras_2, without keras_3
        present = [tf.convert_to_tensor(each) for each in present]  # without keras_2, without keras_3
        present = [tf.convert_to_tensor(each) for each in present]  # with dense, with keras_2
    reduced = iter(reduce_over_workers("MEAN", present))  # without sum, without compression
    reduced = iter(reduce_over_workers("MEAN", present, compression))  # without sum, with compression
    reduced = iter(reduce_over_workers("SUM", present))  # with sum, without compression
    reduced = iter(reduce_over_workers("SUM", present, compression))  # with sum, with compression
    return [None if each is None else next(reduced) for each in gradients]
