"""What the callbacks of ``horovod.keras`` and ``horovod.tensorflow.keras`` do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
from horovod.tensorflow._gradients import ref
from horovod.tensorflow.elastic import _variables_of

NOT_VARIABLES = "All local variables must be of tf.Variable type."


def value_of(variable: Any) -> Any:
    """The value of a variable; of what is none, itself."""
    return variable.numpy()[()] if hasattr(variable, "numpy") else variable


def set_value(variable: Any, value: Any) -> None:
    """Overwrite a variable; what is none has no type, and raises AttributeError."""
    kind = variable.dtype
    variable.assign(np.asarray(value, dtype=getattr(kind, "name", kind)))


class BroadcastGlobalVariablesCallbackImpl:
    """Broadcasts the variables of model and optimizer after the first batch."""

    def __init__(self, backend: Any, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__()
        self.backend = backend
        self.root_rank = root_rank
        self.device = device
        self.broadcast_done = False
        self._local_vars: set[Any] = set()
        for var in _variables(local_variables):
            self.register_local_var(var)

    def register_local_var(self, var: Any) -> None:
        """Leave a variable as it is on each rank."""
        self._local_vars.add(ref(var))

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.broadcast_done:
            return
        shared = [var for var in self.model.variables if ref(var) not in self._local_vars]
        if hvd._executing_eagerly():
            hvd.broadcast_variables(shared, root_rank=self.root_rank)
            hvd.broadcast_variables(_variables_of(self.model.optimizer), root_rank=self.root_rank)
        else:
            self.backend.get_session().run(hvd.broadcast_global_variables(self.root_rank))
        self.broadcast_done = True


def _variables(given: Any) -> list[Any]:
    if given is None:
        return []
    found = [given] if isinstance(given, tf.Variable) or hasattr(given, "assign") else list(given)
    if not all(isinstance(var, tf.Variable) or hasattr(var, "assign") for var in found):
        raise ValueError(NOT_VARIABLES)
    return found


class MetricAverageCallbackImpl:
    """Averages what is logged at the end of an epoch, in place."""

    def __init__(self, backend: Any, device: str = "") -> None:
        super().__init__()
        self.backend = backend
        self.device = device

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        for metric, value in sorted(logs.items()):
            mean = hvd.allreduce(tf.constant(value, tf.float32))
            logs[metric] = mean.numpy() if hvd._executing_eagerly() else self.backend.get_session().run(mean)


class LearningRateScheduleCallbackImpl:
    """Sets the learning rate from an epoch on, at each epoch or at each batch."""

    def __init__(
        self,
        backend: Any,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise ValueError("Parameter `initial_lr` is required")
        self.backend = backend
        self.initial_lr = initial_lr
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier ** (epoch - start_epoch)
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.restore_momentum: float | None = None
        self.current_epoch: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self._autodetect_steps_per_epoch()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.current_epoch = epoch

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        assert self.current_epoch is not None
        ended = self.end_epoch is not None and self.current_epoch >= self.end_epoch
        if self.current_epoch < self.start_epoch or ended:
            return
        if not self.staircase:
            self._adjust_learning_rate(self.current_epoch + batch / float(self.steps_per_epoch))
        elif batch == 0:
            self._adjust_learning_rate(self.current_epoch)

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.restore_momentum:
            set_value(self.model.optimizer.momentum, self.restore_momentum)
            self.restore_momentum = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            logs["lr"] = value_of(self._rate)

    @property
    def _rate(self) -> Any:
        optimizer = self.model.optimizer
        return optimizer.lr if hasattr(optimizer, "lr") else optimizer.learning_rate

    def _autodetect_steps_per_epoch(self) -> int:
        if self.params.get("steps"):
            return self.params["steps"]
        if self.params.get("samples") and self.params.get("batch_size"):
            return self.params["samples"] // self.params["batch_size"]
        raise ValueError(
            "Could not autodetect the number of steps per epoch. Please specify the steps_per_epoch parameter to the "
            f"{type(self).__name__}() or upgrade to the latest version of Keras."
        )

    def _adjust_learning_rate(self, epoch: float) -> None:
        old, new = float(value_of(self._rate)), self.initial_lr * self.multiplier(epoch)
        set_value(self._rate, new)
        if self.momentum_correction and hasattr(self.model.optimizer, "momentum"):
            self.restore_momentum = value_of(self.model.optimizer.momentum)
            set_value(self.model.optimizer.momentum, float(self.restore_momentum) * new / old)


class LearningRateWarmupCallbackImpl(LearningRateScheduleCallbackImpl):
    """Raises the learning rate from that of one rank to that of all."""

    def __init__(
        self,
        backend: Any,
        initial_lr: float,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            epoch += 1.0 / self.steps_per_epoch
            return 1.0 / hvd.size() * (epoch * (hvd.size() - 1) / warmup_epochs + 1)

        super().__init__(backend, initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if epoch == self.end_epoch - 1 and self.verbose > 0 and hvd.rank() == 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {value_of(self._rate):g}.")
