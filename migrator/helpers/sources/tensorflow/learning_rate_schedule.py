from collections.abc import Callable

import tensorflow as tf


class LearningRateSchedule(tf.keras.callbacks.Callback):
    """Set the learning rate to ``initial_lr`` times ``multiplier``, by epoch or, without ``staircase``, by batch.

    A constant multiplier is raised to the number of epochs since ``start_epoch``. A momentum that is a variable grows  # without keras_3
    for a batch by as much as the learning rate did.  # without keras_3
    A constant multiplier is raised to the number of epochs since ``start_epoch``. Momentum stays as it is.  # with keras_3
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        self.initial_lr = initial_lr
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier ** (epoch - start_epoch)
        self.start_epoch, self.end_epoch, self.staircase = start_epoch, end_epoch, staircase
        self.momentum_correction, self.steps_per_epoch = momentum_correction, steps_per_epoch  # without keras_3
        self.momentum: float | None = None  # without keras_3
        self.steps_per_epoch = steps_per_epoch  # with keras_3

    def on_train_begin(self, logs=None):
        self.steps_per_epoch = self.steps_per_epoch or self.params.get("steps")
        if not self.staircase and not self.steps_per_epoch:
            raise ValueError("say how many steps_per_epoch there are")

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_batch_begin(self, batch, logs=None):
        if self.epoch < self.start_epoch or (self.end_epoch is not None and self.epoch >= self.end_epoch):
            return
        if not self.staircase:
            self.adjust(self.epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self.adjust(self.epoch)

    def adjust(self, epoch: float) -> None:
        """Set the learning rate for ``epoch``, and the momentum for one batch."""  # without keras_3
        optimizer = self.model.optimizer  # without keras_3
        before, after = self.learning_rate(), self.initial_lr * self.multiplier(epoch)  # without keras_3
        optimizer.learning_rate = after  # without keras_3
        if self.momentum_correction and isinstance(getattr(optimizer, "momentum", None), tf.Variable):  # without keras_3
            self.momentum = float(optimizer.momentum.numpy())  # without keras_3
            optimizer.momentum.assign(self.momentum * after / before)  # without keras_3
        """Set the learning rate for ``epoch``."""  # with keras_3
        self.model.optimizer.learning_rate = self.initial_lr * self.multiplier(epoch)  # with keras_3

    def learning_rate(self) -> float:
        """Return the learning rate as it is."""
        return float(tf.convert_to_tensor(self.model.optimizer.learning_rate))

    def on_batch_end(self, batch, logs=None):  # without keras_3
        if self.momentum:  # without keras_3
            self.model.optimizer.momentum.assign(self.momentum)  # without keras_3
            self.momentum = None  # without keras_3
  # without keras_3
    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs["lr"] = self.learning_rate()
