"""What ``horovod.keras`` and ``horovod.tensorflow.keras`` have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import tensorflow as tf

import horovod.tensorflow as hvd
from horovod.tensorflow._gradients import Reduction, chosen_groups, reduced_or_local, ref
from horovod.tensorflow.compression import Compressor
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager

KERAS_3_TRAINER = "keras.src.backend.tensorflow.trainer"
KERAS_3_CORE = "keras.src.backend.tensorflow.core."
PASSED_OVER = ("horovod.", "tensorflow.", "keras.src.optimizers.", "keras.src.ops.", "keras.src.utils.", KERAS_3_CORE)


class Wrapping(NamedTuple):
    """The arguments of an optimizer's wrapper."""

    reduction: Reduction
    backward_passes_per_step: int
    average_aggregated_gradients: bool
    scale_local_gradients: bool

    def helper(self) -> Any:
        """What adds up the gradients of several passes, if there are several."""
        if self.backward_passes_per_step <= 1:
            return None
        reduction, passes, average = self.reduction, self.backward_passes_per_step, self.average_aggregated_gradients
        arguments = (passes, reduction, reduction.sparse_as_dense, average)
        if hvd._executing_eagerly():
            return LocalGradientAggregationHelperEager(*arguments, reduction.process_set, self.scale_local_gradients)
        kind = LocalGradientAggregationHelper._OPTIMIZER_TYPE_KERAS
        return LocalGradientAggregationHelper(
            *arguments, hvd.rank(), kind, reduction.process_set, self.scale_local_gradients
        )


class CallableList(list):
    """The variables of an optimizer, which were a method once."""

    def __call__(self) -> CallableList:
        return self


class _Averaging:
    """What a distributed optimizer has besides that of its own class."""

    _HAS_AGGREGATE_GRAD = True
    _wrapping: Wrapping

    def __init__(self, **kwargs: Any) -> None:
        super(type(self), self).__init__(**kwargs)
        self._name = self._wrapping.reduction.name
        self.process_set = self._wrapping.reduction.process_set
        self.scale_local_gradients = self._wrapping.scale_local_gradients
        self._local_vars: set[Any] = set()
        self._agg_helper = self._wrapping.helper()

    @property
    def _allreduce_grads(self) -> Reduction:
        return self._wrapping.reduction

    @property
    def variables(self) -> CallableList:
        found = super(type(self), self).variables
        return CallableList(found() if callable(found) else found)

    def register_local_var(self, var: Any) -> None:
        """Leave the gradient of a variable as it is on each rank."""
        if self._agg_helper:
            self._agg_helper.register_local_var(var)
        else:
            self._local_vars.add(ref(var))

    def _allreduce(self, grads: Sequence[Any], vars: Sequence[Any]) -> list[Any]:
        if self._agg_helper:
            return self._agg_helper.compute_gradients(tuple(grads), tuple(vars))
        return reduced_or_local(self._allreduce_grads, grads, vars, self._local_vars, self.scale_local_gradients)


class _AveragingInKeras2(_Averaging):
    """Gradients are averaged as they are computed: by ``fit`` and ``minimize``, not by ``apply_gradients``."""

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        """Pairs of reduced gradients and variables."""
        return self._compute_gradients(loss, var_list, None, tape)

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        base = super(type(self), self)
        tape = tf.GradientTape() if tape is None else tape
        if hasattr(base, "_compute_gradients"):
            pairs = base._compute_gradients(loss, var_list, grad_loss, tape=tape)
        else:
            pairs = base.compute_gradients(loss, var_list, tape=tape)
        grads, weights = zip(*pairs)
        return list(zip(self._allreduce(grads, weights), weights))

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """Reduced gradients."""
        return self._allreduce(super(type(self), self).get_gradients(loss, params), params)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Apply gradients as they are; with several passes for a step, at the last one only."""
        if not self._agg_helper:
            return super(type(self), self).apply_gradients(*args, **kwargs)
        pairs, rest = list(args[0]), args[1:]

        def apply() -> Any:
            return super(type(self), self).apply_gradients(pairs, *rest, **kwargs)

        return self._agg_helper.apply_gradients(apply, self, pairs, *rest, **kwargs)


class _AveragingInKeras3(_Averaging):
    """Gradients are averaged where the optimizer applies those that the trainer of Keras has computed."""

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Apply gradients; those of the trainer are reduced before."""
        base = super(type(self), self)
        if not _is_called_by_trainer():
            base.apply(grads, trainable_variables)
            return
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        grads = [tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g for g in grads]
        if not self._agg_helper:
            base.apply(self._allreduce(grads, variables), variables)
            return
        if not self.built:
            with tf.init_scope():
                self.build(variables)
        grads = self._allreduce(grads, variables)
        self._agg_helper.apply_gradients(lambda: base.apply(grads, variables), self)


def _is_called_by_trainer() -> bool:
    """Whether gradients that are applied come from ``fit``, not from a loop or a training step of the program."""
    frame = sys._getframe(2)
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith(PASSED_OVER):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == KERAS_3_TRAINER


def create_distributed_optimizer(
    keras: ModuleType,
    optimizer: Any,
    name: str | None,
    device_dense: str,
    device_sparse: str,
    compression: type[Compressor],
    sparse_as_dense: bool,
    gradient_predivide_factor: float,
    op: int,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: hvd.ProcessSet = hvd.global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """A copy of an optimizer, of a class of the same name, whose gradients are reduced over all ranks."""
    kind = type(optimizer)
    name = name or f"Distributed{kind.__name__}"
    reduction = Reduction(name, compression, sparse_as_dense, op, gradient_predivide_factor, groups, process_set)
    wrapping = Wrapping(reduction, backward_passes_per_step, average_aggregated_gradients, scale_local_gradients)
    own = _AveragingInKeras3 if is_of_keras_3(optimizer) else _AveragingInKeras2
    if own is _AveragingInKeras3:
        _keep_from_xla()
    members = {**vars(_Averaging), **vars(own), "_wrapping": wrapping}
    members = {key: value for key, value in members.items() if key not in ("__dict__", "__weakref__", "__doc__")}
    return type(kind.__name__, (kind,), members).from_config(optimizer.get_config())


def is_of_keras_3(thing: Any) -> bool:
    """Whether an object is of a class of Keras 3, or derived from one."""
    return any(base.__module__.startswith("keras.src") and hasattr(base, "apply") for base in type(thing).__mro__)


def _keep_from_xla() -> None:
    """Keep Keras 3 from compiling models by XLA unless it is told to: it cannot call Python, as collectives here do."""
    from keras.src.trainers import trainer

    trainer.model_supports_jit = lambda model: False


def check_options(op: int, groups: Any, num_groups: int = 0) -> Any:
    """The groups of an optimizer for Keras; raises ValueError for what it does not support."""
    if op not in (hvd.Average, hvd.Sum):
        raise ValueError("op currently only supports Average and Sum")
    return chosen_groups(groups, num_groups)


def _eval(backend: Any, op_or_result: Any) -> Any:
    return op_or_result if hvd._executing_eagerly() else backend.get_session().run(op_or_result)


def broadcast_global_variables(backend: Any, root_rank: int) -> Any:
    return _eval(backend, hvd.broadcast_global_variables(root_rank))


def allreduce(
    backend: Any,
    value: Any,
    name: str | None,
    average: bool | None,
    prescale_factor: float,
    postscale_factor: float,
    op: int | None,
    compression: type[Compressor],
) -> Any:
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    tensor = tf.constant(value, name=name)
    return _eval(backend, hvd.allreduce(tensor, average=average, op=op, compression=compression, **factors))


def allgather(backend: Any, value: Any, name: str | None) -> Any:
    return _eval(backend, hvd.allgather(tf.constant(value, name=name)))


def broadcast(backend: Any, value: Any, root_rank: int, name: str | None) -> Any:
    return _eval(backend, hvd.broadcast(tf.constant(value, name=name), root_rank))


def reducescatter(backend: Any, value: Any, name: str | None, op: int) -> Any:
    return _eval(backend, hvd.reducescatter(tf.constant(value, name=name), op=op))


def load_model(
    keras: ModuleType,
    wrap_optimizer: Callable[[type], Callable[..., Any]],
    filepath: Any,
    custom_optimizers: Sequence[type] | None,
    custom_objects: dict[str, Any] | None,
    legacy_opts: bool = False,
) -> Any:
    """Load a model whose optimizer becomes a distributed one."""
    kind = keras.optimizers.legacy.Optimizer if legacy_opts else keras.optimizers.Optimizer
    known = {one.__name__.lower(): one for one in kind.__subclasses__()}
    known.update({one.__name__: one for one in custom_optimizers or ()})
    wrapped = {name: wrap_optimizer(one) for name, one in known.items()}
    if hasattr(kind, "apply"):
        wrapped = {one.__name__: _restorable(one, wrapped[name]) for name, one in known.items()}
    return keras.models.load_model(filepath, custom_objects={**wrapped, **(custom_objects or {})})


def _restorable(kind: type, wrap: Callable[..., Any]) -> type:
    """What Keras 3 takes for a class of optimizers: what it makes from a configuration is distributed."""
    return type(kind.__name__, (kind,), {"from_config": classmethod(lambda cls, config, **_: wrap(**config))})
