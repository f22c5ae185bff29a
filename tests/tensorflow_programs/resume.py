"""A checkpoint of the first worker is resumed by all: its epoch is broadcast, then the variables."""
import glob
import os
import tempfile

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd


def build():
    model = tf.keras.Sequential([tf.keras.layers.Dense(5, activation="tanh"), tf.keras.layers.Dense(1)])
    model.build((None, 3))
    return model


@tf.function
def step(model, optimizer, x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(model(x) - y))
    tape = hvd.DistributedGradientTape(tape)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


def train(model, folder, first, last, x, y):
    optimizer = tf.keras.optimizers.SGD(0.1)
    resume_from = 0
    if hvd.rank() == 0:
        found = [int(os.path.basename(name)[6:-11]) for name in glob.glob(os.path.join(folder, "epoch-*.weights.h5"))]
        resume_from = max(found, default=0)
    resume_from = hvd.broadcast_object(resume_from, root_rank=0, name="resume_from")
    if resume_from > 0 and hvd.rank() == 0:
        model.load_weights(os.path.join(folder, f"epoch-{resume_from}.weights.h5"))
    hvd.broadcast_variables(model.variables, root_rank=0)
    assert resume_from == first
    for epoch in range(resume_from, last):
        losses = [float(step.python_function(model, optimizer, x[i::3], y[i::3])) for i in range(3)]
        if hvd.rank() == 0:
            model.save_weights(os.path.join(folder, f"epoch-{epoch + 1}.weights.h5"))
        print("TRACE", "epoch", epoch, losses, hvd.allgather_object({"rank": hvd.rank(), "loss": sum(losses)}))


hvd.init()
tf.keras.utils.set_random_seed(5 + hvd.rank())
random = np.random.RandomState(71 + hvd.rank())
x = random.rand(12, 3).astype("float32")
y = x.max(axis=1, keepdims=True)
folder = hvd.broadcast_object(tempfile.mkdtemp() if hvd.rank() == 0 else None)
train(build(), folder, 0, 2, x, y)
resumed = build()
train(resumed, folder, 2, 4, x, y)
print("TRACE", "weights", [value.tolist() for value in resumed.get_weights()])
gathered = hvd.allgather(tf.constant([[hvd.rank()]] * (hvd.rank() + 1)))
print("TRACE", "gathered", gathered.numpy().tolist(), hvd.broadcast(tf.constant([0.5 + hvd.rank()]), 1).numpy().tolist())
