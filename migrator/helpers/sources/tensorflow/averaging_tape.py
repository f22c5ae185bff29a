import tensorflow as tf

from migrator.helpers.tensorflow.average_over_workers import average_over_workers
from migrator.helpers.tensorflow.average_over_workers import sum_over_workers


def averaging_tape(tape: tf.GradientTape) -> tf.GradientTape:  # without sum, without options
def adding_tape(tape: tf.GradientTape) -> tf.GradientTape:  # with sum, without options
def averaging_tape(  # without sum, with options
def adding_tape(  # with sum, with options
    tape: tf.GradientTape,  # with options
    compression: tf.DType | None = None,  # with compression
    sparse_as_dense: bool = False,  # with dense
) -> tf.GradientTape:  # with options
    """Make ``tape`` average the gradients that it computes over all workers."""  # without sum
    """Make ``tape`` add up the gradients that it computes over all workers."""  # with sum
    compute = tape.gradient

    def gradient(*args, **kwargs):
        return average_over_workers(compute(*args, **kwargs))  # without sum, without options
        return sum_over_workers(compute(*args, **kwargs))  # with sum, without options
        return average_over_workers(  # without sum, with options
        return sum_over_workers(  # with sum, with options
            compute(*args, **kwargs),  # with options
            compression=compression,  # with compression
            sparse_as_dense=sparse_as_dense,  # with dense
        )  # with options

    tape.gradient = gradient
    return tape
