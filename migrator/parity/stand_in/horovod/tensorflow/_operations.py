"""In the place of Horovod's operations in C++: eager or in a graph, they check requests, submit them and wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from horovod.common.controller import DUPLICATE_NAME, NOT_INITIALIZED, RUNTIME, Controller, Entry
from horovod.common.negotiation import AVERAGE, NOT_WITH_JOIN, SUM, Request
from horovod.tensorflow._collectives import Array, ArrayBackend

REDUCED = ("uint8", "int8", "int32", "int64", "float16", "float32", "float64")
SCATTERED = REDUCED[2:]
MOVED = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64", "bool")
IN_OPERATIONS = {"float16": "half", "float32": "float", "float64": "double"}
PRECONDITIONS = ("Mismatched", "Process-set", *NOT_WITH_JOIN.values())
FAILED_PRECONDITION = tf.errors.FailedPreconditionError
INVALID_ARGUMENT = tf.errors.InvalidArgumentError

backend = ArrayBackend()


class Operation(NamedTuple):
    """One use of an operation: its type, the name that it was given, its process set, and how long its list is."""

    kind: str
    name: str | None = None
    process_set: int | None = 0
    ignore_name_scope: bool = False
    count: int | None = None

    def error(self, kind: type[tf.errors.OpError], text: str) -> tf.errors.OpError:
        """The error that TensorFlow makes of a failed operation."""
        what = "variables" if "Inplace" in self.kind else "tensors"
        listed = "" if self.count is None else f"_num_{what}_{self.count}"
        function = f"__wrapped__{self.kind}{listed}_device_/job:localhost/replica:0/task:0/device:CPU:0"
        error = kind(None, None, f"{{{{function_node {function}}}}} {text} {self.end}")
        error.reason = text
        return error

    @property
    def end(self) -> str:
        """What ends TensorFlow's messages about it."""
        return f"[Op:{self.kind}] name: {self.name or ''}"

    @property
    def node(self) -> str:
        """The name of a node for it in the graph that is being made, without its scopes."""
        return "".join(letter if letter.isalnum() or letter in "_." else "_" for letter in self.name or self.kind)

    def names(self, own: Sequence[str] = ()) -> list[str]:
        """The names under which ranks negotiate: in a graph, those of nodes; several end in numbers or ``own``."""
        base = self.kind if tf.executing_eagerly() or self.name is None else self.name
        if not tf.executing_eagerly() and not self.ignore_name_scope:
            base = tf.compat.v1.get_default_graph().unique_name(self.node, mark_as_used=False)
        if self.count is None:
            return [base]
        return [f"{base}_{end}" for end in own or [f"{i}of{self.count}" for i in range(1, self.count + 1)]]


class Work:
    """Carries out an operation on arrays, when their values are there."""

    def __init__(
        self, operation: Operation, names: Sequence[str], request: Callable[..., Request], has_splits: bool = False
    ) -> None:
        self.operation = operation
        self.names = names
        self.request = request
        self.has_splits = has_splits

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        arrays = [np.asarray(value) for value in values]
        controller = self._controller()
        splits = arrays.pop().tolist() if self.has_splits else []
        if len(set(self.names)) < len(self.names):
            raise self.operation.error(INVALID_ARGUMENT, DUPLICATE_NAME)
        entries = [Array(array) for array in arrays]
        requests = [self._request(controller, name, array, splits) for name, array in zip(self.names, arrays)]
        submit(self.operation, controller, requests, entries)
        received = [entries[0].received] if self.has_splits else []
        return [entry.result for entry in entries] + received

    def _controller(self) -> Controller:
        if RUNTIME.controller is None:
            raise self.operation.error(FAILED_PRECONDITION, NOT_INITIALIZED)
        return RUNTIME.controller

    def _request(self, controller: Controller, name: str, array: np.ndarray, splits: list[int]) -> Request:
        members = controller.members.get(self.operation.process_set)
        found = self.request(controller.placement.rank, members, array, splits)
        return found._replace(
            name=name, process_set=self.operation.process_set, dtype=array.dtype.name, shape=list(array.shape)
        )


def submit(operation: Operation, controller: Controller, requests: Sequence[Request], entries: Sequence[Entry]) -> None:
    """Ask for collectives and wait for all of them; raises TensorFlow's errors."""
    try:
        controller.submit(requests, entries)
        for entry in entries:
            entry.done.wait()
        for entry in entries:
            entry.wait()
    except ValueError as error:
        raise operation.error(INVALID_ARGUMENT, str(error)) from error
    except RuntimeError as error:
        kind = FAILED_PRECONDITION if str(error).startswith(PRECONDITIONS) else tf.errors.UnknownError
        raise operation.error(kind, str(error)) from error


def allreduce(
    operation: Operation, tensors: Sequence[tf.Tensor], op: int, prescale: float, postscale: float
) -> list[tf.Tensor]:
    """Reduce tensors over all ranks."""
    _check_types(operation, REDUCED, tensors)

    def request(rank: int, members: Sequence[int] | None, array: np.ndarray, splits: Sequence[int]) -> Request:
        _check_member(operation, rank, members, "Allreduce")
        kind = "ADASUM" if op == 2 else "ALLREDUCE"
        return Request(kind, "", op=op, prescale=prescale, postscale=postscale)

    return _results(operation, Work(operation, operation.names(), request), tensors, lambda shape: shape)


def allgather(operation: Operation, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Join tensors of all ranks along their first dimension."""
    _check_types(operation, MOVED, tensors)

    def request(rank: int, members: Sequence[int] | None, array: np.ndarray, splits: Sequence[int]) -> Request:
        _check_member(operation, rank, members, "Allgather")
        return Request("ALLGATHER", "")

    return _results(operation, Work(operation, operation.names(), request), tensors, _other_rows)


def broadcast(
    operation: Operation, tensors: Sequence[tf.Tensor], root: int, names: Sequence[str] = ()
) -> list[tf.Tensor]:
    """Give all ranks the tensors of one."""
    _check_types(operation, MOVED, tensors)

    def request(rank: int, members: Sequence[int] | None, array: np.ndarray, splits: Sequence[int]) -> Request:
        _check_registered(operation, members, "Broadcast")
        if root not in members or rank not in members:
            text = f"broadcast received invalid root rank {root} for provided process set"
            raise operation.error(INVALID_ARGUMENT, text)
        return Request("BROADCAST", "", root=root)

    work = Work(operation, operation.names(names), request)
    return _results(operation, work, tensors, lambda shape: shape)


def alltoall(operation: Operation, tensor: tf.Tensor, splits: tf.Tensor) -> list[tf.Tensor]:
    """Send rows of a tensor to every rank; returns what came, and the numbers of rows from each."""
    _check_types(operation, MOVED, [tensor])
    _check_type(operation, 1, splits.dtype, tf.int32)

    def request(rank: int, members: Sequence[int] | None, array: np.ndarray, splits: Sequence[int]) -> Request:
        _check_registered(operation, members, "Alltoall")
        _check_member(operation, rank, members, "Alltoall")
        rows = array.shape[0] if array.ndim else 0
        return Request("ALLTOALL", "", splits=_splits(operation, splits, rows, len(members)))

    work = Work(operation, operation.names(), request, has_splits=True)
    found, received = _call(operation, work, [tensor, splits], [tensor.dtype, tf.int32])
    return [_shaped(found, _other_rows(tensor.shape)), _shaped(received, tf.TensorShape([None]))]


def reducescatter(
    operation: Operation, tensors: Sequence[tf.Tensor], op: int, prescale: float, postscale: float
) -> list[tf.Tensor]:
    """Reduce tensors over all ranks and keep this rank's rows."""
    _check_types(operation, SCATTERED, tensors)

    def request(rank: int, members: Sequence[int] | None, array: np.ndarray, splits: Sequence[int]) -> Request:
        if not array.ndim:
            raise operation.error(INVALID_ARGUMENT, "Reducescatter does not support scalar inputs")
        if members is None or rank not in members:
            raise operation.error(INVALID_ARGUMENT, f"Invalid process set id for this rank: {operation.process_set}")
        if op not in (AVERAGE, SUM):
            raise operation.error(tf.errors.AbortedError, "Reducescatter currently only supports AVERAGE and SUM.")
        factor = postscale / len(members) if op == AVERAGE else postscale
        return Request("REDUCESCATTER", "", prescale=prescale, postscale=factor)

    return _results(operation, Work(operation, operation.names(), request), tensors, _other_rows)


def join() -> tf.Tensor:
    """Have no more data; returns the last rank that says so."""
    operation = Operation("HorovodJoin")

    def work() -> np.ndarray:
        if RUNTIME.controller is None:
            raise operation.error(FAILED_PRECONDITION, NOT_INITIALIZED)
        entry = Entry()
        submit(operation, RUNTIME.controller, [Request("JOIN", "join")], [entry])
        return np.array(entry.number, np.int32)

    return _shaped(_call(operation, work, [], [tf.int32])[0], tf.TensorShape([]))


def _results(
    operation: Operation,
    work: Work,
    tensors: Sequence[tf.Tensor],
    shape: Callable[[tf.TensorShape], tf.TensorShape],
) -> list[tf.Tensor]:
    found = _call(operation, work, tensors, [tensor.dtype for tensor in tensors])
    return [_shaped(one, shape(tensor.shape)) for one, tensor in zip(found, tensors)]


def _call(operation: Operation, work: Callable[..., Any], tensors: Sequence[tf.Tensor], types: Sequence[Any]) -> Any:
    """Work at once, or where the graph comes to it; in a function, after all that has been asked before."""
    if tf.executing_eagerly():
        found = work(*[tensor.numpy() for tensor in tensors])
        return [tf.convert_to_tensor(one, dtype=kind) for one, kind in zip(_listed(found), types)]

    def work_in_graph(*values: np.ndarray) -> Any:
        try:
            return work(*values)
        except INVALID_ARGUMENT as error:
            raise ValueError(error.reason) from None  # TensorFlow makes InvalidArgumentError of it again,
        except tf.errors.OpError as error:
            raise RuntimeError(error.reason) from None  # and of this UnknownError

    return tf.numpy_function(work_in_graph, tensors, list(types), name=operation.node)


def _listed(found: Any) -> Sequence[Any]:
    return found if isinstance(found, list) else [found]


def _shaped(tensor: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    if not tf.executing_eagerly():
        tensor.set_shape(shape)
    return tensor


def _other_rows(shape: tf.TensorShape) -> tf.TensorShape:
    return tf.TensorShape(None) if shape.rank is None else tf.TensorShape([None, *shape[1:]])


def _check_types(operation: Operation, allowed: Sequence[str], tensors: Sequence[tf.Tensor]) -> None:
    kind = next((tensor.dtype.name for tensor in tensors if tensor.dtype.name not in allowed), allowed[0])
    if kind not in allowed and tf.executing_eagerly():
        names = [IN_OPERATIONS.get(name, name) for name in (kind, *allowed)]
        text = f"Value for attr 'T' of {names[0]} is not in the list of allowed values: {', '.join(names[1:])}"
        raise INVALID_ARGUMENT(None, None, text)
    if kind not in allowed:
        where = "tensor" if operation.count is None else "tensors"
        text = f"Value passed to parameter '{where}' has DataType {kind} not in list of allowed values: "
        raise TypeError(text + ", ".join(allowed))
    if operation.kind in ("HorovodGroupedAllreduce", "HorovodGroupedReducescatter"):
        for place, tensor in enumerate(tensors):
            _check_type(operation, place, tensor.dtype, tensors[0].dtype)


def _check_type(operation: Operation, place: int, found: tf.DType, expected: tf.DType) -> None:
    if found == expected:
        return
    names = [IN_OPERATIONS.get(kind.name, kind.name) for kind in (expected, found)]
    text = (
        f"cannot compute {operation.kind} as input #{place}(zero-based) was expected to be a {names[0]} tensor but is"
    )
    raise INVALID_ARGUMENT(None, None, f"{text} a {names[1]} tensor {operation.end}")


def _check_registered(operation: Operation, members: Sequence[int] | None, what: str) -> None:
    if members is None:
        text = f"{what}: Process set provided does not exist, or has not been registered."
        raise operation.error(INVALID_ARGUMENT, text)


def _check_member(operation: Operation, rank: int, members: Sequence[int] | None, what: str) -> None:
    _check_registered(operation, members, what)
    if rank not in members:
        text = f"{what}: Rank {rank} is not a member of the provided process set."
        raise operation.error(INVALID_ARGUMENT, text)


def _splits(operation: Operation, splits: Sequence[int], rows: int, size: int) -> list[int]:
    if len(splits) == size and sum(splits) <= rows:
        return list(splits)
    if not splits and rows % size == 0:
        return [rows // size] * size
    if len(splits) == size:
        text = "Sum of splits entries is greater than the first dimension of tensor."
    elif splits:
        text = "Number of entries in splits does not equal number of workers."
    else:
        text = "splits not provided, but first dimension of tensor is not an even multiple of the number of workers."
    raise operation.error(INVALID_ARGUMENT, text)
