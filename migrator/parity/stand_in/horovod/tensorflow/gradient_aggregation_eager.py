"""Gradients that are added up over several passes, outside the graphs of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow._gradients import Reduction, reduced_or_local, ref
from horovod.tensorflow.gradient_aggregation import NO_SLICES


class LocalGradientAggregationHelperEager:
    """Adds gradients up, and reduces the sum at every ``backward_passes_per_step``-th pass."""

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Reduction,
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        if backward_passes_per_step <= 0:
            raise ValueError("backward_passes_per_step must be > 0")
        self.allreduce_grads = allreduce_func
        self.sparse_as_dense = sparse_as_dense
        self.backward_passes_per_step = backward_passes_per_step
        self.average_aggregated_gradients = average_aggregated_gradients
        self.locally_aggregated_grads: dict[int, tf.Variable] = {}
        self.counter = tf.Variable(0, trainable=False)
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self._local_vars: set[Any] = set()

    def register_local_var(self, var: Any) -> None:
        """Leave the gradient of a variable as it is on each rank."""
        self._local_vars.add(ref(var))

    def compute_gradients(self, grads: Sequence[Any], vars: Sequence[Any]) -> list[Any]:
        """The sums so far; at the last pass, those of all ranks."""
        grads = [self._dense(gradient) for gradient in grads]
        there = [i for i, gradient in enumerate(grads) if gradient is not None]
        self._make_room({i: grads[i] for i in there})
        sums = [self.locally_aggregated_grads[i].assign_add(grads[i]) for i in there]
        sums = [tf.convert_to_tensor(total) for total in sums]
        self.counter.assign_add(1)
        found = tf.cond(
            tf.equal(self.counter, self.backward_passes_per_step),
            lambda: self._reduce(sums, [vars[i] for i in there]),
            lambda: sums,
        )
        by_place = dict(zip(there, found if isinstance(found, (list, tuple)) else [found]))
        return [by_place.get(i) for i in range(len(grads))]

    def apply_gradients(self, apply_grads_closure: Callable[[], Any], optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply what has just been reduced; at other passes, count only."""

        def apply() -> tf.Tensor:
            apply_grads_closure()
            return tf.convert_to_tensor(optimizer.iterations)

        def count() -> tf.Tensor:
            optimizer.iterations.assign_add(1)
            return tf.convert_to_tensor(optimizer.iterations)

        return tf.cond(tf.equal(self.counter, 0), apply, count)

    def _dense(self, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self.sparse_as_dense:
            raise ValueError(NO_SLICES)
        return tf.convert_to_tensor(gradient)

    def _make_room(self, grads: dict[int, tf.Tensor]) -> None:
        for i, gradient in grads.items():
            if i not in self.locally_aggregated_grads:
                with tf.init_scope():
                    zeros = tf.zeros(gradient.shape, gradient.dtype)
                    self.locally_aggregated_grads[i] = tf.Variable(zeros, trainable=False)

    def _reduce(self, sums: Sequence[tf.Tensor], vars: Sequence[Any]) -> list[tf.Tensor]:
        reduced = reduced_or_local(self.allreduce_grads, sums, vars, self._local_vars, self.scale_local_gradients)
        self.counter.assign(0)
        for total in self.locally_aggregated_grads.values():
            total.assign(tf.zeros_like(total))
        divisor = self.backward_passes_per_step if self.average_aggregated_gradients else 1
        return [gradient / divisor for gradient in reduced] if divisor > 1 else reduced
