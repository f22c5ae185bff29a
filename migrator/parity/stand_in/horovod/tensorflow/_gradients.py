"""How the gradients of a training step are reduced over all ranks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from horovod.common.process_sets import ProcessSet
from horovod.common.util import split_list
from horovod.tensorflow._reductions import allreduce, allreduce_each, grouped_allreduce
from horovod.tensorflow.compression import Compressor
from horovod.tensorflow.mpi_ops import Average

GROUPS = "groups should be a non-negative integer or a list of list of tf.Variable."
NUM_GROUPS = "Parameter `num_groups` has been replaced by `groups` and will be removed in v0.23.0."


class Reduction(NamedTuple):
    """What the arguments of an optimizer or a tape say about the reduction of gradients."""

    name: str
    compression: type[Compressor]
    sparse_as_dense: bool
    op: int
    gradient_predivide_factor: float
    groups: Any
    process_set: ProcessSet

    @property
    def factors(self) -> tuple[float, float]:
        """What gradients are multiplied with before and after."""
        factor = self.gradient_predivide_factor
        return (1.0 / factor, float(factor)) if self.op == Average else (1.0, 1.0)

    def __call__(self, grads: Sequence[Any], vars: Any = None, use_generic_names: bool = False) -> list[Any]:
        """The reduced gradients; those that are None stay so."""
        if self.sparse_as_dense:
            grads = [tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g for g in grads]
        with tf.name_scope(f"{self.name}_Allreduce"):
            if self.groups is not None:
                return self._in_groups(grads, vars, use_generic_names)
            return self._each(grads, use_generic_names) if self._is_needed else list(grads)

    @property
    def _is_needed(self) -> bool:
        return bool(self.process_set.included()) and (self.process_set.size() or 0) > 1

    def _each(self, grads: Sequence[Any], use_generic_names: bool) -> list[Any]:
        reduced = list(grads)
        for i, gradient in enumerate(grads):
            if isinstance(gradient, tf.IndexedSlices):
                reduced[i] = allreduce(gradient, **self._options(f"grad_{i}" if use_generic_names else None))
        dense = [i for i, g in enumerate(grads) if g is not None and not isinstance(g, tf.IndexedSlices)]
        name = "grad" if use_generic_names else None
        if dense:
            chosen = [grads[i] for i in dense]
            found = allreduce_each(chosen, self.compression, self.op, self.factors, self.process_set, name)
            for i, tensor in zip(dense, found):
                reduced[i] = tensor
        return reduced

    def _in_groups(self, grads: Sequence[Any], vars: Sequence[Any], use_generic_names: bool) -> list[Any]:
        reduced: list[Any] = [None] * len(vars)
        for number, group in enumerate(self._split(grads, vars)):
            places, members = zip(*group)
            options = self._options(f"grad_{number}" if use_generic_names else None)
            found = grouped_allreduce(list(members), **options) if self._is_needed else members
            for place, gradient in zip(places, found):
                reduced[place] = gradient
        return reduced

    def _split(self, grads: Sequence[Any], vars: Sequence[Any]) -> list[Any]:
        """Gradients with their places, by group; Horovod knows variables by their names."""
        there = [(i, gradient) for i, gradient in enumerate(grads) if gradient is not None]
        if not isinstance(self.groups, list):
            return split_list(there, self.groups)
        by_name = {_name(vars[i]): (i, gradient) for i, gradient in there}
        groups = [[by_name.pop(_name(v)) for v in group if _name(v) in by_name] for group in self.groups]
        return [*groups, *([rest] for rest in by_name.values())]

    def _options(self, name: str | None) -> dict[str, Any]:
        prescale, postscale = self.factors
        options = {"compression": self.compression, "op": self.op, "process_set": self.process_set, "name": name}
        return {**options, "prescale_factor": prescale, "postscale_factor": postscale, "ignore_name_scope": bool(name)}


def reduced_or_local(
    reduction: Reduction,
    grads: Sequence[Any],
    vars: Sequence[Any],
    local: set[Any],
    scale_local_gradients: bool,
    use_generic_names: bool = False,
) -> list[Any]:
    """The gradients of all variables: reduced, or for a rank's own ones divided by the number of ranks."""
    refs = [ref(v) for v in vars]
    found = dict(zip(refs, grads))
    shared = [(v, g) for r, v, g in zip(refs, vars, grads) if r not in local]
    reduced = reduction([g for _, g in shared], [v for v, _ in shared], use_generic_names)
    found.update(zip((ref(v) for v, _ in shared), reduced))
    divisor = reduction.process_set.size() if scale_local_gradients else 1
    # No variable is updated while a gradient that is to be reduced may still be computed from it.
    with tf.control_dependencies([g for g in reduced if isinstance(g, tf.Tensor)]):
        found.update({r: _divided(found[r], divisor) for r in refs if r in local})
    return [found[ref(v)] for v in vars]


def _divided(gradient: Any, count: int | None) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_divided(gradient.values, count), gradient.indices, gradient.dense_shape)
    if gradient is None:
        return None
    return tf.identity(gradient) if count == 1 else gradient / count


def ref(variable: Any) -> Any:
    """What stands for a variable in sets; those of Keras 3 contain one of TensorFlow."""
    return variable._value.ref() if hasattr(variable, "_value") and not hasattr(variable, "ref") else variable.ref()


def _name(variable: Any) -> str:
    return str(getattr(variable, "path", variable.name))


def chosen_groups(groups: Any, num_groups: int = 0) -> Any:
    """The groups that two arguments ask for."""
    if num_groups != 0:
        warnings.warn(NUM_GROUPS, DeprecationWarning, stacklevel=3)
        groups = num_groups if groups is None else groups
    if groups is not None and not (isinstance(groups, list) or groups > 0):
        raise ValueError(GROUPS)
    return groups
