"""fit with BatchNormalization, Adam and Dropout: all workers begin alike, and the first one keeps what is best."""

import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

hvd.init()
tf.keras.utils.set_random_seed(7)
random = np.random.RandomState(0)
inputs = random.rand(60, 6).astype("float32")
targets = inputs.sum(axis=1, keepdims=True) * 0.5
data = tf.data.Dataset.from_tensor_slices((inputs, targets)).shard(hvd.size(), hvd.rank()).batch(8)
model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(8, activation="tanh"),
        tf.keras.layers.BatchNormalization(),
        tf.keras.layers.Dropout(0.3),
        tf.keras.layers.Dense(1),
    ]
)
model.compile(loss="mse", optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.01 * hvd.size())))
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
]
if hvd.rank() == 0:
    callbacks.append(tf.keras.callbacks.ModelCheckpoint("best.h5", monitor="loss", save_best_only=True))
history = model.fit(data, epochs=3, callbacks=callbacks, verbose=0, validation_data=data)
if hvd.rank() == 0:
    model.save("saves.h5")
    model.save_weights("saves.weights.h5")
print("TRACE", "weights", [variable.numpy().tolist() for variable in model.trainable_variables])
print("TRACE", "statistics", [variable.numpy().tolist() for variable in model.non_trainable_variables])
print("TRACE", "loss", [float(value) for value in history.history["loss"]])
