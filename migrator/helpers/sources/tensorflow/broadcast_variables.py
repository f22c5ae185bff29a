from collections.abc import Iterable

import tensorflow as tf

from migrator.helpers.tensorflow.rank import rank
from migrator.helpers.tensorflow.reduce_over_workers import reduce_over_workers


def broadcast_variables(variables: Iterable[tf.Variable], root_rank: int) -> None:
    """Give ``variables`` the values that they have on worker ``root_rank``."""
    variables = variables() if callable(variables) else variables  # with callable
    targets = list(variables)  # with keras_2
    # Keras 3 counts the states of random generators among a model's variables; each worker keeps its own.  # without keras_2
    targets = [each for each in variables if each.name != "seed_generator_state"]  # without keras_2
    own = [tf.convert_to_tensor(each) for each in targets]
    sent = own if rank() == root_rank else [tf.zeros_like(each) for each in own]
    for target, value in zip(targets, reduce_over_workers("SUM", sent)):
        target.assign(value)
