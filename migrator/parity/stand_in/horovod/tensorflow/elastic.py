"""Elastic training: states that go back to the last commit, and the loop that goes on from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from horovod.common.elastic import ObjectState, run_fn
from horovod.common.exceptions import HorovodInternalError
from horovod.tensorflow.functions import broadcast_object, broadcast_object_fn, broadcast_variables
from horovod.tensorflow.mpi_ops import init, rank, shutdown
from horovod.tensorflow.util import _executing_eagerly

COLLECTIVES = ("HorovodAllreduce", "HorovodAllgather", "HorovodBroadcast")
NOT_BUILT = "Model must be built first. Run `model.build(input_shape)`."


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Make a training function that goes back to the last commit when a collective fails."""

    def wrapper(state: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return func(state, *args, **kwargs)
        except tf.errors.UnknownError as error:
            if any(name in error.message for name in COLLECTIVES):
                raise HorovodInternalError(error) from error

    return run_fn(wrapper, _reset)


def _reset() -> None:
    shutdown()
    init()


def _variables_of(optimizer: Any) -> list[Any]:
    """The variables of an optimizer of any Keras."""
    found = optimizer.variables
    return list(found() if callable(found) else found)


class TensorFlowKerasState(ObjectState):
    """A model, its optimizer, and plain values as attributes."""

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        self.model = model
        if not getattr(model, "built", True):
            raise ValueError(NOT_BUILT)
        self.optimizer = optimizer or model.optimizer
        self.backend = backend
        self._save_model()
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **kwargs)

    def save(self) -> None:
        self._save_model()
        super().save()

    def restore(self) -> None:
        for variable, value in zip(self._variables(), self._saved_values):
            variable.assign(value)
        super().restore()

    def sync(self) -> None:
        broadcast_variables(self.model.variables, root_rank=0)
        broadcast_variables(_variables_of(self.optimizer), root_rank=0)
        self._save_model()
        super().sync()

    def _variables(self) -> list[Any]:
        return [*self.model.variables, *_variables_of(self.optimizer)]

    def _save_model(self) -> None:
        self._saved_values = [tf.identity(tf.convert_to_tensor(variable)) for variable in self._variables()]


class TensorFlowState(ObjectState):
    """Variables, and plain values as attributes."""

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        self.variables = variables or tf.compat.v1.global_variables()
        self.session = session
        self._bcast_op = broadcast_variables(self.variables, root_rank=0)
        self._save_model()
        bcast_object = broadcast_object if _executing_eagerly() else broadcast_object_fn(session=session)
        super().__init__(bcast_object=bcast_object, get_rank=rank, **kwargs)

    def save(self) -> None:
        self._save_model()
        super().save()

    def restore(self) -> None:
        for variable, value in zip(self.variables, self._values):
            if _executing_eagerly():
                variable.assign(value)
            else:
                variable.load(value, self.session)
        super().restore()

    def sync(self) -> None:
        if self.session is not None:
            self.session.run(self._bcast_op)
        self._save_model()
        super().sync()

    def _save_model(self) -> None:
        read = (lambda v: v.numpy()) if _executing_eagerly() else (lambda v: v.eval(self.session))
        self._values = [read(variable) for variable in self.variables]
