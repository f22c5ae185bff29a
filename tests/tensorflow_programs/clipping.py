"""Clipping acts on the averaged gradient: by the norm of each, of all, and by value; a tape clips for itself."""
import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras

hvd.init()
random = np.random.RandomState(61)
x = random.normal(size=(32, 4)).astype("float32")
y = 10 * x.sum(axis=1, keepdims=True) ** 2
initial = [random.normal(scale=0.5, size=shape) for shape in ((4, 6), (6,), (6, 1), (1,))]
x, y = x[hvd.rank() :: hvd.size()], y[hvd.rank() :: hvd.size()]


def build():
    model = tf.keras.Sequential([tf.keras.layers.Dense(6, activation="relu"), tf.keras.layers.Dense(1)])
    model.build((None, 4))
    model.set_weights(initial)
    return model


def fit(**clipping):
    model = build()
    optimizer = tf.keras.optimizers.Adam(0.05 * hvd.size(), **clipping)
    model.compile(loss="mse", optimizer=hvd_keras.DistributedOptimizer(optimizer))
    callbacks = [hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0)]
    model.fit(x, y, batch_size=8, epochs=3, shuffle=False, callbacks=callbacks, verbose=0)
    return [value.tolist() for value in model.get_weights()]


def loop():
    model, optimizer = build(), tf.keras.optimizers.SGD(0.05)
    for batch in range(4):
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean(tf.square(model(x[batch::4]) - y[batch::4]))
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        print("TRACE", "norm", float(norm))
    return [value.tolist() for value in model.get_weights()]


print("TRACE", "clipnorm", fit(clipnorm=0.5))
print("TRACE", "global_clipnorm", fit(global_clipnorm=0.5))
print("TRACE", "clipvalue", fit(clipvalue=0.25))
print("TRACE", "tape", loop())
