import tensorflow as tf

from migrator.helpers.tensorflow.average_over_workers import average_over_workers
from migrator.helpers.tensorflow.average_over_workers import sum_over_workers


def average_gradients(optimizer: tf.keras.optimizers.Optimizer) -> tf.keras.optimizers.Optimizer:  # without sum, without options
def sum_gradients(optimizer: tf.keras.optimizers.Optimizer) -> tf.keras.optimizers.Optimizer:  # with sum, without options
def average_gradients(  # without sum, with options
def sum_gradients(  # with sum, with options
    optimizer: tf.keras.optimizers.Optimizer,  # with options
    compression: tf.DType | None = None,  # with compression
    sparse_as_dense: bool = False,  # with dense
) -> tf.keras.optimizers.Optimizer:  # with options
    """Make ``optimizer`` average gradients over all workers before it applies them."""  # without sum, with keras_3
    """Make ``optimizer`` add up the gradients of all workers before it applies them."""  # with sum, with keras_3
    """Make ``optimizer`` average gradients over all workers when ``fit`` has it compute them."""  # without sum, with keras_2
    """Make ``optimizer`` add up the gradients of all workers when ``fit`` has it compute them."""  # with sum, with keras_2
    """Make ``optimizer`` average gradients over all workers, in Keras 2 and 3, before it applies them."""  # without sum, without keras_2, without keras_3
    """Make ``optimizer`` add up the gradients of all workers, in Keras 2 and 3, before it applies them."""  # with sum, without keras_2, without keras_3
  # with options
    def reduced(gradients):  # with options
        return average_over_workers(  # without sum, with options
        return sum_over_workers(  # with sum, with options
            gradients,  # with options
            compression=compression,  # with compression
            sparse_as_dense=sparse_as_dense,  # with dense
        )  # with options
  # with options
    step = optimizer.apply  # with keras_3
    optimizer.apply = lambda grads, trainable_variables=None: step(average_over_workers(grads), trainable_variables)  # with keras_3, without sum, without options
    optimizer.apply = lambda grads, trainable_variables=None: step(sum_over_workers(grads), trainable_variables)  # with keras_3, with sum, without options
    optimizer.apply = lambda grads, trainable_variables=None: step(reduced(grads), trainable_variables)  # with keras_3, with options
    if hasattr(optimizer, "apply"):  # without keras_2, without keras_3
        step = optimizer.apply  # without keras_2, without keras_3
        optimizer.apply = lambda grads, trainable_variables=None: step(average_over_workers(grads), trainable_variables)  # without keras_2, without keras_3, without sum, without options
        optimizer.apply = lambda grads, trainable_variables=None: step(sum_over_workers(grads), trainable_variables)  # without keras_2, without keras_3, with sum, without options
        optimizer.apply = lambda grads, trainable_variables=None: step(reduced(grads), trainable_variables)  # without keras_2, without keras_3, with options
        return optimizer  # without keras_2, without keras_3
    name = "compute_gradients" if hasattr(optimizer, "compute_gradients") else "_compute_gradients"  # without keras_3
    compute = getattr(optimizer, name)  # without keras_3
  # without keras_3
    def compute_reduced(*args, **kwargs):  # without keras_3
        gradients, variables = zip(*compute(*args, **kwargs))  # without keras_3
        return list(zip(average_over_workers(gradients), variables))  # without keras_3, without sum, without options
        return list(zip(sum_over_workers(gradients), variables))  # without keras_3, with sum, without options
        return list(zip(reduced(gradients), variables))  # without keras_3, with options
  # without keras_3
    setattr(optimizer, name, compute_reduced)  # without keras_3
    return optimizer
