"""Tapes that reduce the gradients that they compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow._gradients import Reduction, chosen_groups, reduced_or_local, ref
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.mpi_ops import Average


class _Tape:
    """What a distributed tape has besides that of its own class."""

    def __init__(self, tape: tf.GradientTape, reduction: Reduction, scale_local_gradients: bool) -> None:
        super(type(self), self).__init__(tape._persistent, tape._watch_accessed_variables)
        self._tape = tape._tape
        self._reduction = reduction
        self.process_set = reduction.process_set
        self.scale_local_gradients = scale_local_gradients
        self._local_sources: set[Any] = set()

    def register_local_source(self, source: tf.Variable) -> None:
        """Leave the gradient of a source as it is on each rank."""
        self._local_sources.add(ref(source))

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False
    ) -> list[Any]:
        """The gradients, reduced over all ranks; sources are a list."""
        gradients = super(type(self), self).gradient(target, sources, output_gradients)
        return reduced_or_local(
            self._reduction, gradients, sources, self._local_sources, self.scale_local_gradients, use_generic_names
        )

    def get_local_and_global_gradients(
        self, target: Any, sources: Sequence[Any], output_gradients: Any = None, use_generic_names: bool = False
    ) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Pairs of sources and gradients: those of this rank alone, and those of all."""
        gradients = self.gradient(target, sources, output_gradients, use_generic_names)
        pairs = list(zip(sources, gradients))
        return (
            [pair for pair in pairs if ref(pair[0]) in self._local_sources],
            [pair for pair in pairs if ref(pair[0]) not in self._local_sources],
        )


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """A tape in the place of ``gradtape``, whose gradients are reduced over all ranks."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    groups = chosen_groups(groups, num_groups)
    name, factor = "DistributedGradientTape", gradient_predivide_factor
    reduction = Reduction(name, compression, sparse_as_dense, op, factor, groups, process_set)
    kind = type(gradtape)
    members = {name: value for name, value in vars(_Tape).items() if name not in ("__dict__", "__weakref__")}
    return type(kind.__name__, (kind,), members)(gradtape, reduction, scale_local_gradients)


def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """A distributed tape that leaves the gradients of some layers as they are on each rank."""
    layers = local_layers_of(local_layers, tf.keras.layers.Layer)
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for layer in layers:
        for variable in layer.trainable_weights:
            tape.register_local_source(variable)
    return tape


def local_layers_of(local_layers: Any, kind: type) -> list[Any]:
    """The layers that an argument names: none, one or several."""
    if local_layers is None:
        return []
    layers = [local_layers] if isinstance(local_layers, kind) else list(local_layers)
    if not all(isinstance(layer, kind) for layer in layers):
        raise ValueError("All local layers must be of tf.keras.layers.Layer type.")
    return layers
