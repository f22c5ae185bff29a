"""The functions of Horovod for programs with ``import keras``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

import horovod._keras as _impl
from horovod.tensorflow import Average
from horovod.tensorflow._tape import local_layers_of
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.mpi_ops import ProcessSet, global_process_set

K = keras.backend


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    num_groups: int = 0,
    groups: Any = None,
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
        groups=groups,
    )


def PartialDistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """A distributed optimizer that leaves the gradients of some layers as they are on each rank."""
    groups = _impl.check_options(op, groups)
    layers = local_layers_of(local_layers, keras.layers.Layer)
    distributed = _impl.create_distributed_optimizer(
        keras,
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
    for layer in layers:
        for variable in layer.trainable_weights:
            distributed.register_local_var(variable)
    return distributed


def broadcast_global_variables(root_rank: int) -> Any:
    """Overwrite all variables of a graph with the root's."""
    return _impl.broadcast_global_variables(K, root_rank)


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool = True,
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
