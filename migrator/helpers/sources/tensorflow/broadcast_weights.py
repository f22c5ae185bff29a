import tensorflow as tf

from migrator.helpers.tensorflow.broadcast_variables import broadcast_variables


class BroadcastWeights(tf.keras.callbacks.Callback):
    """Give all workers the weights and the optimizer's state of one, after the first batch of training."""

    def __init__(self, root_rank: int = 0) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.is_done = False

    def on_batch_end(self, batch, logs=None):
        if not self.is_done:
            state = self.model.optimizer.variables  # without keras_3
            state = state() if callable(state) else state  # without keras_3
            broadcast_variables([*self.model.variables, *state], self.root_rank)  # without keras_3
            broadcast_variables([*self.model.variables, *self.model.optimizer.variables], self.root_rank)  # with keras_3
            self.is_done = True
