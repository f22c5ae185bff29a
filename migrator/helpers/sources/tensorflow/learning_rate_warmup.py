from migrator.helpers.tensorflow.learning_rate_schedule import LearningRateSchedule
from migrator.helpers.tensorflow.rank import rank
from migrator.helpers.tensorflow.size import size


class LearningRateWarmup(LearningRateSchedule):
    """Raise the learning rate by batches from ``initial_lr`` over the number of workers to ``initial_lr``."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            return 1.0 / size() * ((epoch + 1.0 / self.steps_per_epoch) * (size() - 1) / warmup_epochs + 1)

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        if epoch == self.end_epoch - 1 and self.verbose > 0 and rank() == 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {self.learning_rate():g}.")
