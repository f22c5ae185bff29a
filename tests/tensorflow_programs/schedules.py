"""Warm-up, staircase and smooth schedules with momentum, resumed at a later epoch, beside Keras's own callbacks."""
import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd
from horovod.tensorflow.keras.callbacks import LearningRateScheduleCallback, LearningRateWarmupCallback, MetricAverageCallback

BATCH, EPOCHS, WARMUP = 4, 6, 2
hvd.init()
random = np.random.RandomState(31)
x = random.rand(50, 4).astype("float32")[hvd.rank() :: hvd.size()]
y = (x**2).sum(axis=1)
steps = len(x) // BATCH
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(6, activation="tanh"), tf.keras.layers.Dense(1)])
model.set_weights([random.normal(scale=0.4, size=value.shape) for value in model.get_weights()])
initial_lr = 0.02 * hvd.size()
opt = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(initial_lr, momentum=0.8))
model.compile(opt, "mse")


class Rates(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch % 3 == 0:
            print("TRACE", "rate", float(tf.keras.backend.get_value(self.model.optimizer.learning_rate)))


def decay(epoch):
    return 1.0 / (1.0 + 0.5 * (epoch - WARMUP))


def callbacks():
    kept = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(root_rank=0),
        MetricAverageCallback(),
        LearningRateWarmupCallback(
            initial_lr=initial_lr, warmup_epochs=WARMUP, momentum_correction=False, steps_per_epoch=steps, verbose=1
        ),
        LearningRateScheduleCallback(
            initial_lr=initial_lr, multiplier=decay, start_epoch=WARMUP, end_epoch=4, staircase=False,
            momentum_correction=False, steps_per_epoch=steps,
        ),
        LearningRateScheduleCallback(initial_lr, 0.5, start_epoch=4, momentum_correction=False),
        tf.keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.1, patience=0, min_delta=10.0),
        Rates(),
    ]
    if hvd.rank() == 0:
        kept.append(tf.keras.callbacks.CSVLogger("schedules.csv"))
    return kept


first = model.fit(x, y, batch_size=BATCH, epochs=3, callbacks=callbacks(), verbose=0, shuffle=False)
second = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, initial_epoch=3, callbacks=callbacks(), verbose=0, shuffle=False)
for history in (first.history, second.history):
    print("TRACE", "logged", [float(rate) for rate in history["lr"]], [float(loss) for loss in history["loss"]])
print("TRACE", "weights", [value.tolist() for value in model.get_weights()])
