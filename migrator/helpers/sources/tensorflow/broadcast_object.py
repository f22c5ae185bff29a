import pickle
from typing import Any

import tensorflow as tf

from migrator.helpers.tensorflow.broadcast import broadcast
from migrator.helpers.tensorflow.rank import rank


def broadcast_object(value: Any = None, root_rank: int = 0) -> Any:
    """Return the object that ``value`` is on worker ``root_rank``."""
    data = pickle.dumps(value) if rank() == root_rank else b""
    size = int(broadcast(tf.constant(len(data), tf.int64), root_rank))
    sent = tf.constant(list(data.ljust(size, b"\0")[:size]), tf.int32)
    return pickle.loads(bytes(broadcast(sent, root_rank).numpy().tolist()))
