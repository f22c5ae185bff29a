"""Reductions over all ranks that an argument describes: compressed, sparse, in groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.mpi_ops import (
    Adasum,
    Average,
    Sum,
    _allreduce,
    _allreduce_several,
    _grouped_allreduce,
    _grouped_reducescatter,
    _reducescatter,
    allgather,
    check_num_rank_power_of_2,
    grouped_allgather,
    handle_average_backwards_compatibility,
    size,
)

SPARSE_ADASUM = (
    "The Adasum reduction does not currently support sparse tensors. As a "
    "workaround please pass sparse_as_dense=True to DistributedOptimizer"
)


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Reduce a tensor, or slices of one, over all ranks: to the mean unless ``op`` says otherwise."""
    op = handle_average_backwards_compatibility(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        _check_sparse(op)
        values = allgather(tensor.values, process_set=process_set, ignore_name_scope=ignore_name_scope)
        indices = allgather(tensor.indices, process_set=process_set, ignore_name_scope=ignore_name_scope)
        return _slices(tensor, values, indices, op, (prescale_factor, postscale_factor), process_set)
    tf.cast(process_set.size(), tensor.dtype)
    compressed, context = compression.compress(tensor)
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    options = {"name": name, "process_set": process_set, "ignore_name_scope": ignore_name_scope}
    reduced = compression.decompress(_allreduce(compressed, op=op, **factors, **options), context)
    if op == Adasum:
        _check_adasum(process_set)
    return reduced


def _check_sparse(op: int) -> None:
    if op == Adasum:
        raise NotImplementedError(SPARSE_ADASUM)
    if op not in (Sum, Average):
        raise NotImplementedError("Only Sum and Average ops are supported with tf.IndexedSlices")


def _slices(
    tensor: Any, values: tf.Tensor, indices: tf.Tensor, op: int, factors: tuple[float, float], process_set: ProcessSet
) -> tf.IndexedSlices:
    """The slices of all ranks, one after the other."""
    count = tf.cast(process_set.size(), values.dtype)
    values = values / count if op == Average else values
    if factors != (1.0, 1.0):
        raise NotImplementedError("Pre/postscale_factor are not supported with tf.IndexedSlices")
    return tf.IndexedSlices(values, indices, dense_shape=tensor.dense_shape)


def _check_adasum(process_set: ProcessSet) -> None:
    if process_set != global_process_set:
        raise NotImplementedError("Adasum does not support non-global process sets yet.")
    if not check_num_rank_power_of_2(size()):
        raise NotImplementedError("Running Adasum with non-power of 2 ranks is not supported yet.")


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> Sequence[Any]:
    """Reduce several tensors, or slices, over all ranks."""
    if not tensors:
        return tensors
    op = handle_average_backwards_compatibility(op, average)
    scope = {"process_set": process_set, "ignore_name_scope": ignore_name_scope}
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    merged = list(tensors)
    sparse = [i for i, tensor in enumerate(tensors) if isinstance(tensor, tf.IndexedSlices)]
    dense = [i for i in range(len(tensors)) if i not in sparse]
    if sparse:
        _check_sparse(op)
        values = grouped_allgather([tensors[i].values for i in sparse], **scope)
        indices = grouped_allgather([tensors[i].indices for i in sparse], **scope)
        # Horovod takes the shapes of the first tensors, slices or not.
        for i, shaped, *gathered in zip(sparse, tensors, values, indices):
            merged[i] = _slices(shaped, *gathered, op, (prescale_factor, postscale_factor), process_set)
    if dense:
        compressed, contexts = zip(*[compression.compress(tensors[i]) for i in dense])
        reduced = _grouped_allreduce(compressed, name=name, op=op, **factors, **scope)
        if op == Adasum:
            _check_adasum(process_set)
        for i, tensor, context in zip(dense, reduced, contexts):
            merged[i] = compression.decompress(tensor, context)
    return merged


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """Reduce a tensor over all ranks, and keep this rank's rows."""
    compressed, context = compression.compress(tensor)
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    options = {"name": name, "process_set": process_set, "ignore_name_scope": ignore_name_scope}
    return compression.decompress(_reducescatter(compressed, op=op, **factors, **options), context)


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Sequence[Any]:
    """Reduce several tensors over all ranks, and keep this rank's rows."""
    if not tensors:
        return tensors
    compressed, contexts = zip(*[compression.compress(tensor) for tensor in tensors])
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    reduced = _grouped_reducescatter(compressed, op=op, process_set=process_set, **factors)
    return [compression.decompress(tensor, context) for tensor, context in zip(reduced, contexts)]


def allreduce_each(
    tensors: Sequence[tf.Tensor],
    compression: type[Compressor],
    op: int,
    factors: tuple[float, float],
    process_set: ProcessSet,
    name: str | None,
) -> list[tf.Tensor]:
    """Reduce dense tensors of any types, all of them under way at once."""
    compressed, contexts = zip(*[compression.compress(tensor) for tensor in tensors])
    options = (name, op, *factors, name is not None, process_set)
    reduced = _allreduce_several("HorovodAllreduce", compressed, *options)
    if op == Adasum:
        _check_adasum(process_set)
    return [compression.decompress(tensor, context) for tensor, context in zip(reduced, contexts)]
