"""Gradients travel as fp16 where the command line asks for it, in a loop with a tape and in fit."""
import argparse

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras

parser = argparse.ArgumentParser()
parser.add_argument("--no-fp16-allreduce", action="store_true", default=False)
args = parser.parse_args()

hvd.init()
compression = hvd.Compression.none if args.no_fp16_allreduce else hvd.Compression.fp16
random = np.random.RandomState(81)
x = random.normal(size=(24, 4)).astype("float32")[hvd.rank() :: hvd.size()]
y = x[:, :1] - x[:, 1:2] ** 2
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(6, activation="tanh"), tf.keras.layers.Dense(1)])
initial = [random.normal(scale=0.5, size=value.shape) for value in model.get_weights()]
model.set_weights(initial)
opt = tf.optimizers.SGD(0.1 * hvd.size(), momentum=0.5)


@tf.function
def benchmark_step(data, target, first_batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(target - model(data, training=True)))
    tape = hvd.DistributedGradientTape(tape, compression=compression)
    gradients = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(gradients, model.trainable_variables))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(opt.variables(), root_rank=0)
    return loss


for number in range(6):
    print("TRACE", "loss", float(benchmark_step(x[number % 2 :: 2], y[number % 2 :: 2], number == 0)))
print("TRACE", "tape", [value.tolist() for value in model.get_weights()])

model.set_weights(initial)
optimizer = hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.1), compression=hvd_keras.Compression.fp16)
model.compile(loss="mse", optimizer=optimizer)
model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=[hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0)])
print("TRACE", "fit", [value.tolist() for value in model.get_weights()])
