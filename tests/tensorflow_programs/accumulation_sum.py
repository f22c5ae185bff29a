"""Gradients of two batches are added up before a step; an odd number of batches leaves one over."""
import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

hvd.init()
random = np.random.RandomState(41)
x = random.rand(40, 3).astype("float32")[hvd.rank() :: hvd.size()]
y = x @ np.array([[1.0], [-2.0], [0.5]], "float32")
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(5, activation="tanh"), tf.keras.layers.Dense(1)])
model.set_weights([random.normal(scale=0.4, size=value.shape) for value in model.get_weights()])
# The gradients are added up, so the learning rate is that of half as many.
opt = tf.keras.optimizers.SGD(0.1 / 2, momentum=0.9)
opt = hvd.DistributedOptimizer(opt, backward_passes_per_step=2)
model.compile(loss="mse", optimizer=opt)


class Weights(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print("TRACE", "batch", batch, self.model.get_weights()[0].tolist())


callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), Weights()]
history = model.fit(x, y, batch_size=4, epochs=3, shuffle=False, callbacks=callbacks, verbose=0)
print("TRACE", "iterations", int(opt.iterations))
print("TRACE", "weights", [value.tolist() for value in model.get_weights()], history.history["loss"])
