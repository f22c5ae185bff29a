"""A loop with a tape in a function, gradients that are None, and a mean of losses."""

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd

hvd.init()
tf.keras.utils.set_random_seed(3 + hvd.rank())
random = np.random.RandomState(1)
inputs = random.rand(40, 4).astype("float32")
labels = (inputs.sum(axis=1) > 2).astype("int64")
data = tf.data.Dataset.from_tensor_slices((inputs, labels)).shard(hvd.size(), hvd.rank()).repeat().batch(5)
model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(2)])
model.build((None, 4))
unused = tf.Variable(1.0)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(0.01 * hvd.size())


@tf.function
def training_step(images, targets, first_batch):
    with tf.GradientTape() as tape:
        loss = loss_of(targets, model(images, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, [*model.trainable_variables, unused])
    optimizer.apply_gradients(zip(gradients[:-1], model.trainable_variables))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
    return loss


for batch, (images, targets) in enumerate(data.take(16 // hvd.size())):
    loss = training_step(images, targets, batch == 0)
mean = hvd.allreduce(loss)
total = hvd.allreduce(tf.constant([hvd.rank() + 1]), op=hvd.Sum)
print("TRACE", "weights", [value.tolist() for value in model.get_weights()])
print("TRACE", "loss", float(loss), float(mean), total.numpy().tolist())
