"""Horovod's collectives for PyTorch: names, arguments, results, gradients and errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from horovod.common.basics import HorovodBasics as _HorovodBasics
from horovod.common.exceptions import HorovodInternalError
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
from horovod.torch import mpi_lib_v2 as mpi_lib
from horovod.torch.compression import Compression, Compressor

__all__ = ["ProcessSet", "add_process_set", "check_installed_version", "global_process_set", "remove_process_set"]

Tensor = torch.Tensor


class _TorchBasics(_HorovodBasics):
    """The basics of PyTorch's Horovod; GPUs are used through NCCL wherever PyTorch can."""

    def nccl_built(self) -> int:
        if not torch.cuda.is_available() or not torch.distributed.is_nccl_available():
            return 0
        major, minor, patch = torch.cuda.nccl.version()[:3]
        return int(major) * 10000 + int(minor) * 100 + int(patch)

    def cuda_built(self) -> bool:
        return self.nccl_built() > 0


_basics = _TorchBasics(mpi_lib.backend)
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
_setup_process_sets(_basics)
_handle_map: dict[int, tuple[object, Any]] = {}


def init(*args: Any, **kwargs: Any) -> None:
    """Join the other ranks."""
    _handle_map.clear()
    _basics.init(*args, **kwargs)
    _setup_process_sets(_basics)


def shutdown(*args: Any, **kwargs: Any) -> None:
    """Leave the other ranks; their pending collectives fail."""
    mpi_lib.handles.reset()
    _basics.shutdown(*args, **kwargs)


@contextlib.contextmanager
def _internal_errors() -> Iterator[None]:
    try:
        yield
    except NotImplementedError:
        raise
    except RuntimeError as error:
        raise HorovodInternalError(error) from error


def _check(kind: str, tensor: Tensor) -> None:
    if not mpi_lib.supports(kind, tensor):
        raise ValueError(f"Tensor type {tensor.type()} is not supported.")
    if not tensor.is_contiguous():
        raise ValueError("Tensor is required to be contiguous.")


def _check_adasum(tensor: Tensor, process_set: ProcessSet) -> None:
    if process_set != global_process_set:
        raise NotImplementedError("Adasum does not support non-global process sets yet.")
    if tensor.device.type != "cpu" and gpu_available("torch"):
        if not num_rank_is_power_2(size() // local_size()):
            raise NotImplementedError("Running GPU Adasum with non-power of 2 nodes is not supported yet.")
    elif not num_rank_is_power_2(size()):
        raise NotImplementedError("Running Adasum with non-power of 2 ranks is not supported yet.")


def _submit_allreduce(
    tensors: Sequence[Tensor],
    outputs: Sequence[Tensor],
    name: str | None,
    op: int,
    factors: tuple[float, float],
    process_set: ProcessSet,
    grouped: bool,
) -> int:
    if op == Adasum:
        _check_adasum(tensors[0], process_set)
    _check("allreduce", tensors[0])
    with _internal_errors():
        handle = mpi_lib.allreduce(tensors, outputs, name, op, factors, process_set.process_set_id, grouped)
    _handle_map[handle] = (tuple(tensors), tuple(outputs) if grouped else outputs[0])
    return handle


def allreduce_async(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to reduce ``tensor`` into a new one; returns a handle for ``poll`` and ``synchronize``."""
    op = handle_average_backwards_compatibility(op, average)
    output = tensor.new(tensor.shape)
    return _submit_allreduce([tensor], [output], name, op, (prescale_factor, postscale_factor), process_set, False)


def allreduce_async_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to reduce ``tensor`` in place; returns a handle."""
    op = handle_average_backwards_compatibility(op, average)
    return _submit_allreduce([tensor], [tensor], name, op, (prescale_factor, postscale_factor), process_set, False)


class HorovodAllreduce(torch.autograd.Function):
    """A reduction whose gradient is reduced in the same way."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, average: bool | None, *options: Any) -> Tensor:
        ctx.average, (_, ctx.op, ctx.prescale_factor, ctx.postscale_factor, ctx.process_set) = average, options
        return synchronize(allreduce_async(tensor, average, *options))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        return allreduce(grad_output, **_of_reduction(ctx)), None, None, None, None, None, None


def _of_reduction(ctx: Any) -> dict[str, Any]:
    return {
        "average": ctx.average,
        "op": ctx.op,
        "prescale_factor": ctx.prescale_factor,
        "postscale_factor": ctx.postscale_factor,
        "process_set": ctx.process_set,
    }


def allreduce(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Return the mean, or another reduction, of ``tensor`` over all ranks."""
    small, ctx = compression.compress(tensor)  # type: ignore[misc]
    reduced = HorovodAllreduce.apply(small, average, name, op, prescale_factor, postscale_factor, process_set)
    return compression.decompress(reduced, ctx)  # type: ignore[return-value]


def allreduce_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Reduce ``tensor`` in place, and return it."""
    return synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce_async(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to reduce several tensors together into new ones; returns one handle."""
    op = handle_average_backwards_compatibility(op, average)
    outputs = [tensor.new(tensor.shape) for tensor in tensors]
    return _submit_allreduce(tensors, outputs, name, op, (prescale_factor, postscale_factor), process_set, True)


def grouped_allreduce_async_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to reduce several tensors together in place; returns one handle."""
    op = handle_average_backwards_compatibility(op, average)
    return _submit_allreduce(tensors, tensors, name, op, (prescale_factor, postscale_factor), process_set, True)


class HorovodGroupedAllreduce(torch.autograd.Function):
    """A reduction of several tensors whose gradients are reduced in the same way."""

    @staticmethod
    def forward(
        ctx: Any,
        average: bool | None,
        name: str | None,
        op: int | None,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
        *tensors: Tensor,
    ) -> Any:
        ctx.average, ctx.op, ctx.process_set = average, op, process_set
        ctx.prescale_factor, ctx.postscale_factor = prescale_factor, postscale_factor
        options = (average, name, op, prescale_factor, postscale_factor, process_set)
        return synchronize(grouped_allreduce_async(list(tensors), *options))

    @staticmethod
    def backward(ctx: Any, *grad_output: Tensor) -> Any:
        return (None, None, None, None, None, None, *grouped_allreduce(list(grad_output), **_of_reduction(ctx)))


def grouped_allreduce(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """Return the reductions of several tensors, made together."""
    small, ctxs = zip(*[compression.compress(tensor) for tensor in tensors])  # type: ignore[misc]
    options = (average, name, op, prescale_factor, postscale_factor, process_set)
    reduced = HorovodGroupedAllreduce.apply(*options, *small)
    return [compression.decompress(one, ctx) for one, ctx in zip(reduced, ctxs)]  # type: ignore[misc]


def grouped_allreduce_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> tuple[Tensor, ...]:
    """Reduce several tensors together, in place."""
    options = (average, name, op, prescale_factor, postscale_factor, process_set)
    return synchronize(grouped_allreduce_async_(tensors, *options))


def sparse_allreduce_async(
    tensor: Tensor, name: str, op: int, process_set: ProcessSet = global_process_set
) -> Callable[[], Tensor]:
    """Start to gather the elements of a sparse tensor; returns the function that waits for it."""
    places = tensor._indices().transpose(0, 1).contiguous()
    indices_handle = allgather_async(places, name=f"{name}.indices", process_set=process_set)
    values_handle = allgather_async(tensor._values(), name=f"{name}.values", process_set=process_set)

    def handle() -> Tensor:
        values = synchronize(values_handle)
        indices = synchronize(indices_handle)
        if op == Average:
            values = values / process_set.size()
        if indices.dim() == 0 or values.dim() == 0:
            return tensor.new().resize_as_(tensor)
        return tensor.new(indices.transpose(0, 1), values, tensor.size())

    return handle


def _submit_allgather(
    tensors: Sequence[Tensor], outputs: Sequence[Tensor], name: str | None, process_set: ProcessSet, grouped: bool
) -> int:
    _check("allgather", tensors[0])
    with _internal_errors():
        handle = mpi_lib.allgather(tensors, outputs, name, process_set.process_set_id, grouped)
    _handle_map[handle] = (tuple(tensors), tuple(outputs) if grouped else outputs[0])
    return handle


def allgather_async(tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Start to concatenate the ranks' tensors along their first dimension; returns a handle."""
    return _submit_allgather([tensor], [tensor.new()], name, process_set, False)


class HorovodAllgather(torch.autograd.Function):
    """A gather; its gradient is the mean over the ranks of this rank's part."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, name: str | None, process_set: ProcessSet) -> Tensor:
        ctx.dim = tensor.shape[0]
        ctx.process_set = process_set
        return synchronize(allgather_async(tensor, name, process_set))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        reduced = allreduce(grad_output, average=True, process_set=ctx.process_set)
        lengths = allgather(torch.IntTensor([ctx.dim]), process_set=ctx.process_set)
        return _own_part(reduced, lengths, ctx.process_set), None, None


def _own_part(tensor: Tensor, lengths: Tensor, process_set: ProcessSet) -> Tensor:
    place = process_set.rank()
    return tensor.narrow(0, int(lengths[:place].sum()), int(lengths[place]))


def allgather(tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> Tensor:
    """Return the ranks' tensors, concatenated along their first dimension, which may differ."""
    return HorovodAllgather.apply(tensor, name, process_set)


def grouped_allgather_async(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start to gather several tensors together; returns one handle."""
    return _submit_allgather(tensors, [tensor.new() for tensor in tensors], name, process_set, True)


class HorovodGroupedAllgather(torch.autograd.Function):
    """A gather of several tensors; gradients as with one."""

    @staticmethod
    def forward(ctx: Any, name: str | None, process_set: ProcessSet, *tensors: Tensor) -> Any:
        ctx.dims = [tensor.shape[0] for tensor in tensors]
        ctx.process_set = process_set
        return synchronize(grouped_allgather_async(list(tensors), name, process_set))

    @staticmethod
    def backward(ctx: Any, *grad_output: Tensor) -> Any:
        reduced = grouped_allreduce(list(grad_output), average=True, process_set=ctx.process_set)
        own = [torch.IntTensor([dim]) for dim in ctx.dims]
        lengths = grouped_allgather(own, process_set=ctx.process_set)
        return (None, None, *(_own_part(one, n, ctx.process_set) for one, n in zip(reduced, lengths)))


def grouped_allgather(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> tuple[Tensor, ...]:
    """Gather several tensors together."""
    return HorovodGroupedAllgather.apply(name, process_set, *tensors)


def _submit_broadcast(tensor: Tensor, output: Tensor, root_rank: int, name: str | None, process_set: ProcessSet) -> int:
    _check("broadcast", tensor)
    with _internal_errors():
        handle = mpi_lib.broadcast(tensor, output, root_rank, name, process_set.process_set_id)
    _handle_map[handle] = (tensor, output)
    return handle


def broadcast_async(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start to send the root's tensor into a new one on every rank; returns a handle."""
    return _submit_broadcast(tensor, tensor.new(tensor.shape), root_rank, name, process_set)


def broadcast_async_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start to send the root's tensor into that of every rank; returns a handle."""
    return _submit_broadcast(tensor, tensor, root_rank, name, process_set)


class HorovodBroadcast(torch.autograd.Function):
    """A broadcast; the root's gradient is the mean over the ranks, that of the others is zero."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root_rank: int, name: str | None, process_set: ProcessSet) -> Tensor:
        ctx.root_rank = root_rank
        ctx.process_set = process_set
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        reduced = allreduce(grad_output, average=True, process_set=ctx.process_set)
        if rank() != ctx.root_rank:
            reduced *= 0
        return reduced, None, None, None


def broadcast(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tensor:
    """Return the root's tensor."""
    return HorovodBroadcast.apply(tensor, root_rank, name, process_set)


def broadcast_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tensor:
    """Overwrite ``tensor`` with the root's, and return it."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def alltoall_async(
    tensor: Tensor,
    splits: Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to exchange parts of ``tensor`` with all ranks; returns a handle for the result and its splits."""
    if isinstance(splits, Tensor):
        received = splits.new()
    else:
        received = torch.empty(size(), dtype=torch.int32, device="cpu")
        splits = torch.tensor([] if splits is None else splits, dtype=torch.int32, device="cpu")
    output = tensor.new()
    _check("alltoall", tensor)
    with _internal_errors():
        handle = mpi_lib.alltoall(tensor, splits, output, received, name, process_set.process_set_id)
    _handle_map[handle] = ((tensor, splits), (output, received))
    return handle


class HorovodAlltoall(torch.autograd.Function):
    """An exchange; its gradient goes back the same ways."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, splits: Any, name: str | None, process_set: ProcessSet) -> Any:
        output, received = synchronize(alltoall_async(tensor, splits, name, process_set))
        ctx.process_set = process_set
        ctx.recvsplits = received
        if splits is None:
            return output
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor, *dead_gradients: Tensor) -> Any:
        back, _ = alltoall(grad_output, splits=ctx.recvsplits, process_set=ctx.process_set)
        return back, None, None, None


def alltoall(
    tensor: Tensor,
    splits: Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send parts of ``tensor`` to all ranks and return what came; with ``splits``, also how much from each."""
    return HorovodAlltoall.apply(tensor, splits, name, process_set)


def _submit_reducescatter(
    tensors: Sequence[Tensor],
    name: str | None,
    op: int,
    process_set: ProcessSet,
    factors: tuple[float, float],
    grouped: bool,
) -> int:
    outputs = [tensor.new() for tensor in tensors]
    _check("reducescatter", tensors[0])
    with _internal_errors():
        handle = mpi_lib.reducescatter(tensors, outputs, name, op, process_set.process_set_id, factors, grouped)
    _handle_map[handle] = (tuple(tensors), tuple(outputs) if grouped else outputs[0])
    return handle


def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start to reduce ``tensor`` and keep this rank's rows; returns a handle."""
    return _submit_reducescatter([tensor], name, op, process_set, (prescale_factor, postscale_factor), False)


class HorovodReducescatter(torch.autograd.Function):
    """A reduction of which each rank keeps its rows; the gradient is gathered."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, name: str | None, *options: Any) -> Tensor:
        ctx.op, ctx.process_set, ctx.prescale_factor, ctx.postscale_factor = options
        return synchronize(reducescatter_async(tensor, name, *options))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        scaled = _scaled_gradient(ctx, grad_output)
        return allgather(scaled, process_set=ctx.process_set), None, None, None, None, None


def _scaled_gradient(ctx: Any, gradient: Tensor) -> Tensor:
    factor = ctx.process_set.size() if ctx.op == Sum else 1
    return gradient * factor * ctx.prescale_factor * ctx.postscale_factor


def reducescatter(
    tensor: Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """Return this rank's rows of the reduction of ``tensor``; the first ranks get one more where it is uneven."""
    small, ctx = compression.compress(tensor)  # type: ignore[misc]
    part = HorovodReducescatter.apply(small, name, op, process_set, prescale_factor, postscale_factor)
    return compression.decompress(part, ctx)  # type: ignore[return-value]


def grouped_reducescatter_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start to reduce several tensors together and keep this rank's rows of each; returns one handle."""
    return _submit_reducescatter(tensors, name, op, process_set, (prescale_factor, postscale_factor), True)


class HorovodGroupedReducescatter(torch.autograd.Function):
    """Reductions of which each rank keeps its rows; gradients as with one."""

    @staticmethod
    def forward(
        ctx: Any,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
        *tensors: Tensor,
    ) -> Any:
        ctx.op, ctx.process_set = op, process_set
        ctx.prescale_factor, ctx.postscale_factor = prescale_factor, postscale_factor
        options = (name, op, process_set, prescale_factor, postscale_factor)
        return synchronize(grouped_reducescatter_async(list(tensors), *options))

    @staticmethod
    def backward(ctx: Any, *grad_output: Tensor) -> Any:
        scaled = [_scaled_gradient(ctx, gradient) for gradient in grad_output]
        return (None, None, None, None, None, *grouped_allgather(scaled, process_set=ctx.process_set))


def grouped_reducescatter(
    tensors: Sequence[Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Tensor]:
    """Return this rank's rows of the reductions of several tensors, made together."""
    pairs = [compression.compress(tensor) for tensor in tensors]
    small = [pair[0] for pair in pairs]  # type: ignore[index]
    options = (name, op, process_set, prescale_factor, postscale_factor)
    parts = HorovodGroupedReducescatter.apply(*options, *small)
    return [compression.decompress(part, pair[1]) for part, pair in zip(parts, pairs)]  # type: ignore[index,misc]


def poll(handle: int) -> bool:
    """Whether ``synchronize`` would return at once."""
    return mpi_lib.handles.is_done(handle)


def synchronize(handle: int) -> Any:
    """Wait for a collective and return its result; None if that has been done."""
    if handle not in _handle_map:
        return None
    try:
        with _internal_errors():
            mpi_lib.handles.wait(handle)
        return _handle_map[handle][1]
    finally:
        _handle_map.pop(handle, None)


def join(device: int = -1) -> int:
    """Take part in the others' reductions with zeros until all have joined; returns the last rank to do so."""
    with _internal_errors():
        handle, entry = mpi_lib.join(device)
    _handle_map[handle] = (None, None)
    synchronize(handle)
    return entry.number


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait for all ranks of the set."""
    with _internal_errors():
        handle = mpi_lib.barrier(process_set.process_set_id)
    _handle_map[handle] = (None, None)
    synchronize(handle)
