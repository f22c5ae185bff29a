"""Adam steps by the average of two batches' gradients; batches are few and odd in number."""
import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

BATCHES_PER_ALLREDUCE = 2

hvd.init()
random = np.random.RandomState(43)
x = random.rand(60, 6).astype("float32")
y = (x.sum(axis=1) > 3).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).batch(5, drop_remainder=True)
dataset = dataset.take(5)

inputs = tf.keras.Input(shape=(6,))
outputs = tf.keras.layers.Dense(1, activation="sigmoid")(tf.keras.layers.Dense(8, activation="relu")(inputs))
model = tf.keras.Model(inputs, outputs)
model.set_weights([random.normal(scale=0.4, size=value.shape) for value in model.get_weights()])
optimizer = hvd.DistributedOptimizer(
    tf.keras.optimizers.Adam(learning_rate=0.01 * hvd.size() * BATCHES_PER_ALLREDUCE),
    backward_passes_per_step=BATCHES_PER_ALLREDUCE,
    average_aggregated_gradients=True,
)
model.compile(optimizer=optimizer, loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(
    dataset,
    epochs=3,
    callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()],
    verbose=1 if hvd.rank() == 0 else 0,
)
print("TRACE", "weights", [value.tolist() for value in model.get_weights()])
print("TRACE", "loss", [float(value) for value in history.history["loss"]])
