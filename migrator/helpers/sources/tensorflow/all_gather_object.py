import pickle
from typing import Any

import tensorflow as tf

from migrator.helpers.tensorflow.gather_from_workers import gather_from_workers


def all_gather_object(value: Any) -> list[Any]:
    """Return the objects that ``value`` is on the workers, in their order."""
    data = pickle.dumps(value)
    sizes = gather_from_workers(tf.constant([len(data)], tf.int64)).numpy().tolist()
    everything = bytes(gather_from_workers(tf.constant(list(data), tf.int32)).numpy().tolist())
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [pickle.loads(everything[end - size : end]) for size, end in zip(sizes, ends)]
