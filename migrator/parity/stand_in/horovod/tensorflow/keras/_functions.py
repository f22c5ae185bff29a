"""The functions of Horovod for programs with ``tf.keras``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow import keras

import horovod._keras as _impl
from horovod.tensorflow import Average
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.mpi_ops import ProcessSet, global_process_set

K = tf.keras.backend


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """A copy of an optimizer that reduces gradients over all ranks before it applies them."""
    groups = _impl.check_options(op, groups, num_groups)
    return _impl.create_distributed_optimizer(
        keras,
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        backward_passes_per_step,
        average_aggregated_gradients,
        groups,
        process_set,
        scale_local_gradients,
    )


def broadcast_global_variables(root_rank: int) -> Any:
    """Overwrite all variables of a graph with the root's."""
    return _impl.broadcast_global_variables(K, root_rank)


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: type[Compressor] = Compression.none,
) -> Any:
    """Reduce a value over all ranks."""
    return _impl.allreduce(K, value, name, average, prescale_factor, postscale_factor, op, compression)


def allgather(value: Any, name: str | None = None) -> Any:
    """Join the values of all ranks along their first dimension."""
    return _impl.allgather(K, value, name)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """Return the root's value on every rank."""
    return _impl.broadcast(K, value, root_rank, name)


def reducescatter(value: Any, name: str | None = None, op: int = Average) -> Any:
    """Reduce a value over all ranks, and keep this rank's rows."""
    return _impl.reducescatter(K, value, name, op)


def load_model(
    filepath: Any,
    custom_optimizers: Any = None,
    custom_objects: dict[str, Any] | None = None,
    compression: type[Compressor] = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """Load a model whose optimizer becomes a distributed one."""

    def wrap_optimizer(cls: type) -> Callable[..., Any]:
        return lambda **kwargs: DistributedOptimizer(cls(**kwargs), compression=compression)

    return _impl.load_model(keras, wrap_optimizer, filepath, custom_optimizers, custom_objects, legacy_opts)
