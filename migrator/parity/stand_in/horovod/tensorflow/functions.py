"""Variables and objects from one rank to all."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow import _operations
from horovod.tensorflow.mpi_ops import allgather, broadcast, broadcast_, rank
from horovod.tensorflow.util import _executing_eagerly

try:
    import cloudpickle as _pickler
except ImportError:
    _pickler = pickle


def broadcast_variables(
    variables: Iterable[tf.Variable],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> tf.Operation | None:
    """Overwrite variables with the root's; in a graph, return the operation that does."""
    variables = list(variables)
    if inplace:
        _broadcast_by_device(variables, root_rank, process_set)
        return None if _executing_eagerly() else tf.no_op()
    for variable in variables:
        variable.assign  # noqa: B018  # raises the error of what is none, before anything is sent
    tensors = [tf.convert_to_tensor(variable) for variable in variables]
    operation = _operations.Operation("HorovodBroadcast", None, process_set.process_set_id, count=len(tensors))
    values = _operations.broadcast(operation, tensors, root_rank) if tensors else []
    assignments = [variable.assign(value) for variable, value in zip(variables, values)]
    return None if _executing_eagerly() else tf.group(*assignments)


def _broadcast_by_device(variables: list[tf.Variable], root_rank: int, process_set: ProcessSet) -> None:
    by_device: dict[str, list[tf.Variable]] = {}
    for variable in variables:
        by_device.setdefault(variable.device, []).append(variable)
    for alike in by_device.values():
        broadcast_(alike, root_rank, process_set=process_set)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's object on every rank."""
    name = type(obj).__name__ if name is None else name
    is_root = rank() == root_rank
    data = _to_bytes(obj) if is_root else np.empty(0, np.uint8)
    length = tf.constant([data.size], tf.int32)
    size = _value(broadcast(length, root_rank, f"{name}.sz", process_set=process_set), session)[0]
    data = data if is_root else np.zeros(size, np.uint8)
    data = _value(broadcast(tf.constant(data, tf.uint8), root_rank, f"{name}.t", process_set=process_set), session)
    return obj if is_root else pickle.loads(data.tobytes())


def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Callable[[Any], Any]:
    """The function that broadcasts an object in a session of TensorFlow 1."""
    used = session or tf.compat.v1.get_default_session()

    def broadcast_in_session(obj: Any) -> Any:
        return broadcast_object(obj, root_rank, used, name or "broadcast_object_fn", process_set)

    return broadcast_in_session


def allgather_object(
    obj: Any, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Return the objects of all ranks, in their order."""
    name = type(obj).__name__ if name is None else name
    data = tf.constant(_to_bytes(obj))
    sizes = _value(allgather(tf.shape(data), name=f"{name}.sz", process_set=process_set), session)
    gathered = _value(allgather(data, name=f"{name}.t", process_set=process_set), session)
    return [pickle.loads(part.tobytes()) for part in np.split(gathered, np.cumsum(sizes)[:-1])]


def _to_bytes(obj: Any) -> np.ndarray:
    return np.frombuffer(_pickler.dumps(obj), np.uint8)


def _value(tensor: tf.Tensor, session: Any) -> np.ndarray:
    if _executing_eagerly():
        return tensor.numpy()
    return (session or tf.compat.v1.get_default_session()).run(tensor)
