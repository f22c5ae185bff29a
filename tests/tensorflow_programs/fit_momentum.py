"""fit with SGD and momentum: a sharded dataset, partial batches, L2, validation and a save on the first worker."""

import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

hvd.init()
tf.keras.utils.set_random_seed(7 + hvd.rank())
random = np.random.RandomState(0)
inputs = random.rand(60, 6).astype("float32")
targets = inputs.sum(axis=1, keepdims=True) * 0.5
data = tf.data.Dataset.from_tensor_slices((inputs, targets)).shard(hvd.size(), hvd.rank()).batch(8)
model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(8, activation="tanh", kernel_regularizer=tf.keras.regularizers.L2(0.01)),
        tf.keras.layers.Dense(1),
    ]
)
# The learning rate grows with the number of workers.
optimizer = tf.keras.optimizers.SGD(0.05 * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer)
model.compile(loss="mse", optimizer=optimizer, metrics=["mae"])
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
]
history = model.fit(data, epochs=3, callbacks=callbacks, verbose=0)
if hvd.rank() == 0:
    model.save_weights("fit_momentum.weights.h5")
print("TRACE", "weights", [value.tolist() for value in model.get_weights()])
print(
    "TRACE", "history", {name: [float(value) for value in values] for name, values in sorted(history.history.items())}
)
