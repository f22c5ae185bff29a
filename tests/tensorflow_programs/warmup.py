"""Warm-up and schedule of the learning rate, with what is logged of it."""

import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

hvd.init()
tf.keras.utils.set_random_seed(5)
random = np.random.RandomState(2)
inputs = random.rand(40, 3).astype("float32")[hvd.rank() :: hvd.size()]
targets = inputs.sum(axis=1, keepdims=True)
model = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(loss="mse", optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.1)))


class Rates(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print("TRACE", "rate", float(tf.convert_to_tensor(self.model.optimizer.learning_rate)))


callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.1, warmup_epochs=2, verbose=1),
    hvd.callbacks.LearningRateScheduleCallback(0.1, multiplier=0.5, start_epoch=2, end_epoch=4),
    hvd.callbacks.LearningRateScheduleCallback(
        initial_lr=0.1, multiplier=lambda epoch: 0.1 ** (epoch - 3), start_epoch=4, staircase=False
    ),
    Rates(),
]
history = model.fit(inputs, targets, batch_size=5, epochs=5, callbacks=callbacks, verbose=0, shuffle=False)
print("TRACE", "weights", [value.tolist() for value in model.get_weights()])
print("TRACE", "logged", [float(rate) for rate in history.history["lr"]])
