import tensorflow as tf

from migrator.helpers.tensorflow.average_over_workers import average_over_workers
from migrator.helpers.tensorflow.average_over_workers import sum_over_workers


def accumulate_gradients(  # without sum
def accumulate_summed_gradients(  # with sum
    optimizer: tf.keras.optimizers.Optimizer,
    backward_passes_per_step: int,
    average_aggregated_gradients: bool = False,
    compression: tf.DType | None = None,  # with compression
) -> tf.keras.optimizers.Optimizer:
    """Make ``optimizer`` add up the gradients of so many batches, and then apply their mean over all workers."""  # without sum
    """Make ``optimizer`` add up the gradients of so many batches, and then apply their sum over all workers."""  # with sum
    count = tf.Variable(0, trainable=False)
    totals: list[tf.Variable] = []
    is_keras_3 = hasattr(optimizer, "apply")  # without keras_2, without keras_3
    apply = optimizer.apply if is_keras_3 else lambda *pair: optimizer.apply_gradients(zip(*pair))  # without keras_2, without keras_3
    apply = optimizer.apply  # with keras_3

    def accumulate(grads, trainable_variables):
        if not totals:
            with tf.init_scope():
                zeros = [tf.zeros(each.shape, each.dtype) for each in trainable_variables]
                totals.extend(tf.Variable(each, trainable=False) for each in zeros)
        for total, gradient in zip(totals, grads):
            if gradient is not None:
                total.assign_add(tf.convert_to_tensor(gradient))

        def step():
            own = [None if each is None else total.read_value() for total, each in zip(totals, grads)]
            reduced = average_over_workers(own)  # without sum, without compression
            reduced = average_over_workers(own, compression)  # without sum, with compression
            reduced = sum_over_workers(own)  # with sum, without compression
            reduced = sum_over_workers(own, compression)  # with sum, with compression
            if average_aggregated_gradients:
                reduced = [None if each is None else each / backward_passes_per_step for each in reduced]
            apply(reduced, trainable_variables)  # without keras_2
            optimizer.apply_gradients(zip(reduced, trainable_variables))  # with keras_2
            for total in totals:
                total.assign(tf.zeros_like(total))
            return tf.identity(count.assign(0))

        def wait():
            optimizer.iterations.assign_add(1)
            return tf.identity(count)

        tf.cond(count.assign_add(1) == backward_passes_per_step, step, wait)

    def minimize(loss, var_list, tape=None, **_):  # without keras_3
        name = "compute_gradients" if hasattr(optimizer, "compute_gradients") else "_compute_gradients"  # without keras_3
        accumulate(*zip(*getattr(optimizer, name)(loss, var_list, tape=tape)))  # without keras_3
  # without keras_3
    if is_keras_3:  # without keras_2, without keras_3
        optimizer.apply = accumulate  # without keras_2, without keras_3
    else:  # without keras_2, without keras_3
        optimizer.minimize = minimize  # without keras_2, without keras_3
    optimizer.minimize = minimize  # with keras_2
    optimizer.apply = accumulate  # with keras_3
    return optimizer
