"""Gradients are added up, with a loss divided by the number of workers, in fit and in a loop."""
import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
from horovod.tensorflow.keras import DistributedOptimizer
from horovod.tensorflow.keras.callbacks import BroadcastGlobalVariablesCallback

hvd.init()
size = hvd.size()
random = np.random.RandomState(91)
x = random.normal(size=(20, 3)).astype("float32")[hvd.rank() :: hvd.size()]
y = (x[:, 0] > 0).astype("float32").reshape(-1, 1)
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, activation="elu"), tf.keras.layers.Dense(1)])
initial = [random.normal(scale=0.5, size=value.shape) for value in model.get_weights()]


def loss_of(labels, logits):
    return tf.nn.sigmoid_cross_entropy_with_logits(labels, logits) / size


model.set_weights(initial)
model.compile(loss=loss_of, optimizer=DistributedOptimizer(tf.keras.optimizers.Adagrad(0.3), op=hvd.Sum))
model.fit(x, y, batch_size=5, epochs=3, shuffle=False, verbose=0, callbacks=[BroadcastGlobalVariablesCallback(0)])
print("TRACE", "fit", [value.tolist() for value in model.get_weights()])

model.set_weights(initial)
hvd.broadcast_variables(model.variables, root_rank=0)
optimizer = tf.keras.optimizers.SGD(0.3)
for batch in range(4):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(loss_of(y[batch::4], model(x[batch::4])))
    tape = hvd.DistributedGradientTape(tape, op=hvd.Sum)
    grads = tape.gradient(loss, model.trainable_weights)
    optimizer.apply_gradients(zip(grads, model.trainable_weights))
    examples = hvd.allreduce(tf.constant(len(x[batch::4])), average=False)
    print("TRACE", "loss", float(hvd.allreduce(loss, op=hvd.Sum)), int(examples))
print("TRACE", "tape", [value.tolist() for value in model.get_weights()])
