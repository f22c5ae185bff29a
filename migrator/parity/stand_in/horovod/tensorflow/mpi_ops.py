"""Horovod's collectives for TensorFlow: names, arguments, results and gradients."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod.common.basics import HorovodBasics as _HorovodBasics
from horovod.common.controller import RUNTIME
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.common.process_sets import _setup as _setup_process_sets
from horovod.common.util import (
    check_installed_version,
    get_average_backwards_compatibility_fun,
    gpu_available,
    num_rank_is_power_2,
)
from horovod.tensorflow import _operations
from horovod.tensorflow._operations import Operation
from horovod.tensorflow.util import _executing_eagerly, _leave_to_python

__all__ = ["ProcessSet", "add_process_set", "check_installed_version", "gpu_available", "remove_process_set"]

NOT_INITIALIZED, UNKNOWN_SET = -1, -3

_leave_to_python()
_basics = _HorovodBasics(_operations.backend)
shutdown = _basics.shutdown
is_initialized = _basics.is_initialized
start_timeline = _basics.start_timeline
stop_timeline = _basics.stop_timeline
size = _basics.size
local_size = _basics.local_size
cross_size = _basics.cross_size
rank = _basics.rank
local_rank = _basics.local_rank
cross_rank = _basics.cross_rank
is_homogeneous = _basics.is_homogeneous
mpi_threads_supported = _basics.mpi_threads_supported
mpi_enabled = _basics.mpi_enabled
mpi_built = _basics.mpi_built
gloo_enabled = _basics.gloo_enabled
gloo_built = _basics.gloo_built
nccl_built = _basics.nccl_built
ddl_built = _basics.ddl_built
ccl_built = _basics.ccl_built
cuda_built = _basics.cuda_built
rocm_built = _basics.rocm_built
Average = _basics.Average
Sum = _basics.Sum
Adasum = _basics.Adasum
Min = _basics.Min
Max = _basics.Max
Product = _basics.Product
handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)
check_num_rank_power_of_2 = num_rank_is_power_2
_setup_process_sets(_basics)


def init(*args: Any, **kwargs: Any) -> None:
    """Join the other ranks."""
    _basics.init(*args, **kwargs)
    _setup_process_sets(_basics)


def _operation(
    kind: str,
    tensors: Sequence[tf.Tensor],
    name: str | None,
    process_set: ProcessSet,
    ignore_name_scope: bool,
    is_grouped: bool = False,
) -> Operation:
    """The operation under its name: in a graph, one is made of the names of the first tensor and the last."""
    if name is None and not _executing_eagerly():
        given = f"{tensors[0].name}_{tensors[-1].name}" if is_grouped else tensors[0].name
        name = f"{kind}_{re.sub('[^a-zA-Z0-9_]', '_', given)}"
    count = len(tensors) if is_grouped else None
    return Operation(kind, name, process_set.process_set_id, ignore_name_scope, count)


def _tensors(values: Sequence[Any]) -> list[tf.Tensor]:
    return [tf.convert_to_tensor(value) for value in values]


def _differentiable(
    tensors: Sequence[tf.Tensor],
    forward: Callable[[Sequence[tf.Tensor]], list[tf.Tensor]],
    backward: Callable[[Sequence[tf.Tensor]], list[tf.Tensor]],
) -> list[tf.Tensor]:
    """What ``forward`` makes of tensors, with ``backward`` for its gradient."""

    @tf.custom_gradient
    def compute(*inputs: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., list[tf.Tensor]]]:
        return forward(inputs), lambda *gradients: backward(_tensors(gradients[: len(inputs)]))

    return list(compute(*tensors))


def _allreduce(
    tensor: Any,
    name: str | None = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """Reduce a tensor over all ranks."""
    [tensor] = _tensors([tensor])
    operation = _operation("HorovodAllreduce", [tensor], name, process_set, ignore_name_scope)
    options = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    options |= {"op": op, "ignore_name_scope": ignore_name_scope, "process_set": process_set}
    return _differentiable(
        [tensor],
        lambda inputs: _operations.allreduce(operation, inputs, op, prescale_factor, postscale_factor),
        lambda gradients: [_allreduce(gradients[0], **options)],
    )[0]


def _grouped_allreduce(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """Reduce several tensors of one type over all ranks."""
    kind = "HorovodGroupedAllreduce"
    return _allreduce_several(
        kind, tensors, name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set
    )


def _allreduce_several(
    kind: str,
    tensors: Sequence[Any],
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    ignore_name_scope: bool,
    process_set: ProcessSet,
) -> list[tf.Tensor]:
    """Reduce tensors over all ranks, all of them under way at once."""
    tensors = _tensors(tensors)
    operation = _operation(kind, tensors, name, process_set, ignore_name_scope, True)
    options = (op, prescale_factor, postscale_factor, ignore_name_scope, process_set)
    return _differentiable(
        tensors,
        lambda inputs: _operations.allreduce(operation, inputs, op, prescale_factor, postscale_factor),
        lambda gradients: _allreduce_several(kind, gradients, None, *options),
    )


def _own_rows(
    inputs: Sequence[tf.Tensor],
    gradients: Sequence[tf.Tensor],
    ignore_name_scope: bool,
    process_set: ProcessSet,
) -> list[tf.Tensor]:
    """The average of what all ranks have for the rows that came from this one."""
    options = {"ignore_name_scope": ignore_name_scope, "process_set": process_set}
    averages = [_allreduce(gradient, op=Average, **options) for gradient in gradients]
    found = []
    for tensor, average in zip(inputs, averages):
        lengths = allgather(tf.shape(tensor)[:1], **options)
        before = tf.reduce_sum(lengths[: process_set.rank()])
        found.append(average[before : before + tf.shape(tensor)[0]])
    return found


def allgather(
    tensor: Any, name: str | None = None, ignore_name_scope: bool = False, process_set: ProcessSet = global_process_set
) -> tf.Tensor:
    """Join the tensors of all ranks along their first dimension, which may differ."""
    [tensor] = _tensors([tensor])
    operation = _operation("HorovodAllgather", [tensor], name, process_set, ignore_name_scope)
    return _differentiable(
        [tensor],
        lambda inputs: _operations.allgather(operation, inputs),
        lambda gradients: _own_rows([tensor], gradients, ignore_name_scope, process_set),
    )[0]


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """Join several tensors of all ranks along their first dimensions."""
    tensors = _tensors(tensors)
    operation = _operation("HorovodGroupedAllgather", tensors, name, process_set, ignore_name_scope, True)
    return _differentiable(
        tensors,
        lambda inputs: _operations.allgather(operation, inputs),
        lambda gradients: _own_rows(tensors, gradients, ignore_name_scope, process_set),
    )


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """Return the root's tensor on every rank."""
    [tensor] = _tensors([tensor])
    operation = _operation("HorovodBroadcast", [tensor], name, process_set, ignore_name_scope)

    def backward(gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        average = _allreduce(gradients[0], op=Average, ignore_name_scope=ignore_name_scope, process_set=process_set)
        return [average if rank() == root_rank else average * 0]

    return _differentiable([tensor], lambda inputs: _operations.broadcast(operation, inputs, root_rank), backward)[0]


def broadcast_(
    variables: Sequence[tf.Variable],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """Overwrite variables, whose names differ, with the root's; returns their values."""
    kind = "HorovodBroadcastInplaceResource"
    operation = Operation(kind, name, process_set.process_set_id, count=len(variables))
    names = [getattr(variable, "path", variable.name) for variable in variables]
    values = _operations.broadcast(operation, _tensors(variables), root_rank, names)
    for variable, value in zip(variables, values):
        variable.assign(value)
    return _tensors(variables)


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send each rank its rows; returns what came, and with ``splits`` the number of rows from each rank."""
    [tensor] = _tensors([tensor])
    given = tf.constant([], tf.int32) if splits is None else tf.convert_to_tensor(splits)
    operation = _operation("HorovodAlltoall", [tensor], name, process_set, ignore_name_scope)
    kept: list[tf.Tensor] = []

    def forward(inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        kept[:] = _operations.alltoall(operation, inputs[0], given)
        return kept

    def backward(gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        options = {"ignore_name_scope": ignore_name_scope, "process_set": process_set}
        return [alltoall(gradients[0], splits=kept[1], **options)[0]]

    found, received = _differentiable([tensor], forward, backward)
    return found if splits is None else (found, received)


def _scattered(
    tensors: Sequence[Any],
    operation: Operation,
    op: int,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
) -> list[tf.Tensor]:
    def backward(gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        factor = prescale_factor * postscale_factor * (process_set.size() if op == Sum else 1)
        scaled = [gradient if factor == 1 else gradient * factor for gradient in gradients]
        options = {"ignore_name_scope": operation.ignore_name_scope, "process_set": process_set}
        return [allgather(gradient, **options) for gradient in scaled]

    return _differentiable(
        tensors,
        lambda inputs: _operations.reducescatter(operation, inputs, op, prescale_factor, postscale_factor),
        backward,
    )


def _reducescatter(
    tensor: Any,
    name: str | None = None,
    op: int = Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """Reduce a tensor over all ranks, and keep this rank's rows."""
    tensors = _tensors([tensor])
    operation = _operation("HorovodReducescatter", tensors, name, process_set, ignore_name_scope)
    return _scattered(tensors, operation, op, process_set, prescale_factor, postscale_factor)[0]


def _grouped_reducescatter(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[tf.Tensor]:
    """Reduce several tensors over all ranks, and keep this rank's rows."""
    tensors = _tensors(tensors)
    kind = "HorovodGroupedReducescatter"
    operation = _operation(kind, tensors, name, process_set, ignore_name_scope, True)
    return _scattered(tensors, operation, op, process_set, prescale_factor, postscale_factor)


def join() -> tf.Tensor:
    """Have no more data: the other ranks' reductions go on with zeros from here; returns the last rank that joins."""
    return _operations.join()


def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """The number of ranks."""
    members = _members(process_set_id)
    return tf.constant(members if isinstance(members, int) else len(members), tf.int32, name=name or "HorovodSize")


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """1 if this process is in the set, 0 if not, less than that if there is no such set."""
    members = _members(process_set_id)
    included = members if isinstance(members, int) else int(rank() in members)
    return tf.constant(included, tf.int32, name=name or "HorovodProcessSetIncluded")


def local_size_op(name: str | None = None) -> tf.Tensor:
    """The number of ranks on this host."""
    return tf.constant(local_size(), tf.int32, name=name or "HorovodLocalSize")


def rank_op(name: str | None = None) -> tf.Tensor:
    """The rank."""
    return tf.constant(rank(), tf.int32, name=name or "HorovodRank")


def local_rank_op(name: str | None = None) -> tf.Tensor:
    """The rank on this host."""
    return tf.constant(local_rank(), tf.int32, name=name or "HorovodLocalRank")


def _members(process_set_id: int) -> Sequence[int] | int:
    if RUNTIME.controller is None:
        return NOT_INITIALIZED
    return RUNTIME.controller.members.get(process_set_id, UNKNOWN_SET)
