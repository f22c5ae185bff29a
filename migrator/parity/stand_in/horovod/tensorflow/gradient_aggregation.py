"""Gradients that are added up over several passes, in the graphs of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow._gradients import Reduction, reduced_or_local, ref

NO_SLICES = "IndexedSlices are not supported when `backward_passes_per_step` > 1 and `sparse_as_dense` is False."


class LocalGradientAggregationHelper:
    """Adds gradients up, and reduces the sum at every ``backward_passes_per_step``-th pass."""

    _OPTIMIZER_TYPE_KERAS = "optimizer_type_keras"
    _OPTIMIZER_TYPE_LEGACY = "optimizer_type_legacy"

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Reduction,
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        rank: int,
        optimizer_type: str,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
        name: str = "",
    ) -> None:
        if backward_passes_per_step <= 0:
            raise ValueError("backward_passes_per_step must be > 0")
        self._allreduce_grads = allreduce_func
        self.name = name
        self.backward_passes_per_step = backward_passes_per_step
        self.average_aggregated_gradients = average_aggregated_gradients
        self.sparse_as_dense = sparse_as_dense
        self.rank = rank
        self.optimizer_type = optimizer_type
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self.locally_aggregated_grads: list[tf.Variable] = []
        self.counter: tf.Variable | None = None
        self._local_vars: set[Any] = set()

    def register_local_var(self, var: tf.Variable) -> None:
        """Leave the gradient of a variable as it is on each rank."""
        self._local_vars.add(ref(var))

    def compute_gradients(self, grads: Sequence[Any], vars: Sequence[tf.Variable]) -> list[Any]:
        """The gradients; at the last pass, the reduced sums."""
        dense = [self._dense(gradient) for gradient in grads]
        there = [i for i, gradient in enumerate(dense) if gradient is not None]
        self._make_variables([dense[i] for i in there])
        pairs = list(zip(self.locally_aggregated_grads, (dense[i] for i in there)))
        added = [total.assign_add(gradient, read_value=False) for total, gradient in pairs]
        with tf.control_dependencies(added):
            counted = self.counter.assign_add(1)
        found = tf.cond(
            tf.equal(counted, self.backward_passes_per_step),
            lambda: self._reduce([vars[i] for i in there]),
            lambda: [tf.identity(dense[i]) for i in there],
        )
        by_place = dict(zip(there, found if isinstance(found, (list, tuple)) else [found]))
        return [by_place.get(i) for i in range(len(grads))]

    def apply_gradients(
        self, apply_grads_closure: Callable[[], tf.Operation], optimizer: Any, *args: Any, **kwargs: Any
    ) -> tf.Operation:
        """Apply what has just been reduced; at other passes, count only."""
        gradients = [gradient for gradient, _ in args[0] if gradient is not None]
        global_step = kwargs.get("global_step")

        def count() -> tf.Operation:
            step = getattr(optimizer, "iterations", None)
            counters = [counter for counter in (step, global_step) if counter is not None]
            return tf.group(*[counter.assign_add(tf.ones_like(counter), read_value=False) for counter in counters])

        def apply() -> tf.Operation:
            return tf.group(apply_grads_closure())

        with tf.control_dependencies(gradients):
            return tf.cond(tf.equal(self.counter.read_value(), 0), apply, count)

    def _dense(self, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self.sparse_as_dense:
            raise ValueError(NO_SLICES)
        return tf.convert_to_tensor(gradient)

    def _make_variables(self, grads: Sequence[tf.Tensor]) -> None:
        v1 = tf.compat.v1
        options = {"trainable": False, "use_resource": True, "collections": [v1.GraphKeys.LOCAL_VARIABLES]}
        with v1.variable_scope(f"aggregation_variables_{self.name}{self.rank}", reuse=v1.AUTO_REUSE):
            self.counter = v1.get_variable("aggregation_counter", initializer=0, **options)
            self.locally_aggregated_grads = [
                v1.get_variable(str(i), initializer=tf.zeros(gradient.shape, gradient.dtype), **options)
                for i, gradient in enumerate(grads)
            ]
        if self.optimizer_type == self._OPTIMIZER_TYPE_KERAS:
            session = v1.keras.backend.get_session(op_input_list=())
            session.run(v1.variables_initializer([self.counter, *self.locally_aggregated_grads]))

    def _reduce(self, vars: Sequence[tf.Variable]) -> list[tf.Tensor]:
        sums = [total.read_value() for total in self.locally_aggregated_grads]
        reduced = reduced_or_local(self._allreduce_grads, sums, vars, self._local_vars, self.scale_local_gradients)
        divisor = self.backward_passes_per_step if self.average_aggregated_gradients else 1
        with tf.control_dependencies([*sums, *reduced]):
            cleared = [total.assign(tf.zeros_like(total), read_value=False) for total in self.locally_aggregated_grads]
            cleared.append(self.counter.assign(0, read_value=False))
        with tf.control_dependencies(cleared):
            return [gradient / divisor for gradient in reduced]
