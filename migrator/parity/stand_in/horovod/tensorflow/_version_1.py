"""Optimizers and hooks of TensorFlow 1, and the function that makes any optimizer distributed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow._gradients import Reduction, chosen_groups, reduced_or_local, ref
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.functions import broadcast_variables
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.mpi_ops import Adasum, Average, rank
from horovod.tensorflow.util import _executing_eagerly

NOT_EAGER = (
    "hvd.broadcast_global_variables() does not support eager execution. Please use "
    "`hvd.broadcast_variables(<model/optimizer variables>)` instead."
)
NO_PASSES = "backward_passes_per_step > 1 is not yet supported for _LegacyOptimizer with eager execution."


def broadcast_global_variables(root_rank: int) -> tf.Operation:
    """The operation that overwrites all variables of a graph with the root's."""
    if _executing_eagerly():
        raise RuntimeError(NOT_EAGER)
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Broadcasts all variables of a graph once a session is there."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.bcast_op: tf.Operation | None = None
        self.device = device

    def begin(self) -> None:
        graph = tf.compat.v1.get_default_graph()
        if self.bcast_op is None or self.bcast_op.graph != graph:
            with tf.device(self.device):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self.bcast_op)


class _LocalOptimizer(tf.compat.v1.train.Optimizer):
    """Passes on what it is asked for; with op=Adasum, Horovod's own optimizer does no more."""

    def __init__(self, optimizer: Any, name: str | None, use_locking: bool) -> None:
        super().__init__(name=name or f"DistributedDelta{type(optimizer).__name__}", use_locking=use_locking)
        self._optimizer = optimizer

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.apply_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.variables(*args, **kwargs)


class _DistributedOptimizer(_LocalOptimizer):
    """Reduces gradients over all ranks as it computes them."""

    def __init__(
        self,
        optimizer: Any,
        use_locking: bool,
        reduction: Reduction,
        backward_passes_per_step: int,
        average_aggregated_gradients: bool,
        scale_local_gradients: bool,
    ) -> None:
        super().__init__(optimizer, reduction.name, use_locking)
        self._reduction = reduction
        self._local_vars: set[Any] = set()
        self.process_set = reduction.process_set
        self.scale_local_gradients = scale_local_gradients
        self._agg_helper: LocalGradientAggregationHelper | None = None
        if backward_passes_per_step > 1:
            if _executing_eagerly():
                raise ValueError(NO_PASSES)
            self._agg_helper = LocalGradientAggregationHelper(
                backward_passes_per_step,
                reduction,
                reduction.sparse_as_dense,
                average_aggregated_gradients,
                rank(),
                LocalGradientAggregationHelper._OPTIMIZER_TYPE_LEGACY,
                reduction.process_set,
                scale_local_gradients,
                reduction.name,
            )

    def register_local_var(self, var: tf.Variable) -> None:
        """Leave the gradient of a variable as it is on each rank."""
        if self._agg_helper is not None:
            self._agg_helper.register_local_var(var)
        else:
            self._local_vars.add(ref(var))

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Pairs of reduced gradients and variables."""
        gradients, variables = zip(*self._optimizer.compute_gradients(*args, **kwargs))
        if self._agg_helper is not None:
            return list(zip(self._agg_helper.compute_gradients(gradients, variables), variables))
        local, scale = self._local_vars, self.scale_local_gradients
        return list(zip(reduced_or_local(self._reduction, gradients, variables, local, scale), variables))

    def apply_gradients(self, grads_and_vars: Sequence[Any], global_step: Any = None, name: str | None = None) -> Any:
        pairs = list(grads_and_vars)

        def apply() -> Any:
            return self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)

        if self._agg_helper is None:
            return apply()
        return self._agg_helper.apply_gradients(apply, self._optimizer, pairs, global_step=global_step)


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """An optimizer in the place of ``optimizer``, whose gradients are reduced over all ranks."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("Adasum does not support average_aggregated_gradients == True")
    groups = chosen_groups(groups, num_groups)
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return _with_keras(
            op,
            optimizer=optimizer,
            name=name,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            gradient_predivide_factor=gradient_predivide_factor,
            backward_passes_per_step=backward_passes_per_step,
            average_aggregated_gradients=average_aggregated_gradients,
            process_set=process_set,
            scale_local_gradients=scale_local_gradients,
        )
    if op == Adasum:
        if process_set.process_set_id != 0:
            raise NotImplementedError("Adasum does not support process sets yet")
        return _LocalOptimizer(optimizer, name, use_locking)
    name = name or f"Distributed{type(optimizer).__name__}"
    reduction = Reduction(name, compression, sparse_as_dense, op, gradient_predivide_factor, groups, process_set)
    return _DistributedOptimizer(
        optimizer, use_locking, reduction, backward_passes_per_step, average_aggregated_gradients, scale_local_gradients
    )


def _with_keras(op: int, **options: Any) -> Any:
    """Horovod does not pass on the reduction, nor groups: gradients are averaged, whatever is asked for."""
    if op == Adasum:
        raise ValueError("op == Adasum is not supported yet with Keras")
    from horovod.tensorflow import keras

    return keras.DistributedOptimizer(**options)
