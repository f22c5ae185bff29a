"""fit with the older SGD, whose momentum warms up: arrays of each worker, partial batches, L2 and a print on rank 0."""

import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

hvd.init()
tf.keras.utils.set_random_seed(7)
random = np.random.RandomState(0)
inputs = random.rand(60, 6).astype("float32")[hvd.rank() :: hvd.size()]
targets = inputs.sum(axis=1, keepdims=True) * 0.5
model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(8, activation="tanh", kernel_regularizer=tf.keras.regularizers.L2(0.01)),
        tf.keras.layers.Dense(1),
    ]
)
optimizer = tf.keras.optimizers.legacy.SGD(0.05 * hvd.size(), momentum=0.9)
model.compile(loss="mse", optimizer=hvd.DistributedOptimizer(optimizer), metrics=["mae"])
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.05 * hvd.size(), warmup_epochs=2),
]
history = model.fit(inputs, targets, batch_size=8, epochs=3, callbacks=callbacks, verbose=0)
if hvd.rank() == 0:
    print("trained by", hvd.size())
print("TRACE", "weights", [variable.numpy().tolist() for variable in model.trainable_variables])
print("TRACE", "loss", [float(value) for value in history.history["loss"]])
