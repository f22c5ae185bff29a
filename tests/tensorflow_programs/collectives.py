"""Collectives of tensors, with the gradients that go through them, and of objects."""

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
values = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])


def check(name, reduce):
    """Print what a collective returns, and the gradient of a weighted sum of it."""
    source = tf.Variable(values)
    with tf.GradientTape() as tape:
        result = reduce(source * float(rank + 1))
        weights = tf.reshape(tf.range(1.0, 1.0 + float(np.prod(result.shape))), result.shape)
        loss = tf.reduce_sum(result * weights) * (rank + 1)
    print("TRACE", name, result.numpy().tolist(), tape.gradient(loss, source).numpy().tolist())


check("average", lambda tensor: hvd.allreduce(tensor))
check("sum", lambda tensor: hvd.allreduce(tensor, op=hvd.Sum))
check("not averaged", lambda tensor: hvd.allreduce(tensor, average=False))
check("min", lambda tensor: hvd.allreduce(tensor, op=hvd.Min))
check("max", lambda tensor: hvd.allreduce(tensor, op=hvd.Max))
check("product", lambda tensor: hvd.allreduce(tensor, op=hvd.Product))
check("scaled", lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5 + rank * 0))
check("fp16", lambda tensor: hvd.allreduce(tensor / 3.0, compression=hvd.Compression.fp16))
check("allgather", lambda tensor: hvd.allgather(tensor))
check("broadcast", lambda tensor: hvd.broadcast(tensor, 1))
check("reducescatter", lambda tensor: hvd.reducescatter(tensor))
check("reducescatter sum", lambda tensor: hvd.reducescatter(tensor, op=hvd.Sum))
check("alltoall", lambda tensor: hvd.alltoall(tensor, splits=tf.constant([1, 2] if rank == 0 else [2, 1]))[0])
check("grouped", lambda tensor: hvd.grouped_allreduce([tensor, tensor * 2.0])[1])


@tf.function
def in_a_function(source):
    """The gradient of a loss that sums means, gathered tensors and tensors of the first worker."""
    with tf.GradientTape() as tape:
        tape.watch(source)
        mean = hvd.allreduce(source) + hvd.broadcast(source * source, 0)
        loss = tf.reduce_sum(mean * mean) + tf.reduce_sum(hvd.allgather(source) ** 2) * float(rank + 1)
    return loss, tape.gradient(loss, source)


for step in range(2):
    loss, gradient = in_a_function(values * (rank + 1.0) + step)
    print("TRACE", "in a function", float(loss), gradient.numpy().tolist())

integers = tf.constant([3, 4, -7]) + rank
print(
    "TRACE", "integers", hvd.allreduce(integers).numpy().tolist(), hvd.allreduce(integers, op=hvd.Sum).numpy().tolist()
)
for dtype in (tf.uint8, tf.int8, tf.int64, tf.float16, tf.float64):
    tensor = tf.cast([100, 120], dtype) + tf.cast(rank, dtype)
    print("TRACE", dtype.name, hvd.allreduce(tensor).numpy().tolist(), hvd.allgather(tensor).numpy().tolist())
    print("TRACE", dtype.name, hvd.broadcast(tensor, 1).numpy().tolist())
print("TRACE", "bool", hvd.allgather(tf.constant([rank == 0, True])).numpy().tolist())
print("TRACE", "bool", hvd.broadcast(tf.constant([rank == 1, True]), 1).numpy().tolist())
print("TRACE", "scalar", float(hvd.allreduce(tf.constant(1.5 + rank))))
print("TRACE", "uneven", hvd.allgather(tf.fill([rank + 1, 2], float(rank))).numpy().tolist())
slices = tf.IndexedSlices(tf.constant([[1.0 + rank], [10.0]]), tf.constant([0, rank + 1]), tf.constant([4, 1]))
for op in (hvd.allreduce(slices), hvd.allreduce(slices, op=hvd.Sum)):
    print("TRACE", "slices", op.values.numpy().tolist(), op.indices.numpy().tolist())
print(
    "TRACE",
    "received",
    hvd.alltoall(tf.range(3) + 10 * rank, splits=tf.constant([3 * rank, 3 - 3 * rank]))[1].numpy().tolist(),
)

variables = [tf.Variable([1.0 + rank]), tf.Variable(2 + rank), tf.Variable([rank == 0])]
hvd.broadcast_variables(variables, root_rank=1)
print("TRACE", "variables", [variable.numpy().tolist() for variable in variables])
print("TRACE", "object", hvd.broadcast_object({"epoch": 3 + rank, "best": [0.5 * rank]}, root_rank=1))
print("TRACE", "objects", hvd.allgather_object({"rank": rank, "name": "x" * (rank + 1)}))
print("TRACE", "operations", int(hvd.rank_op()), int(hvd.size_op()))
gathered = hvd.grouped_allgather([tf.constant([1.0 * rank]), tf.constant([[0.5 * rank]])])
print("TRACE", "gathered", [tensor.numpy().tolist() for tensor in gathered])

layer = hvd.SyncBatchNormalization(momentum=0.9)
inputs = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3) * (rank + 1) ** 2)
with tf.GradientTape() as tape:
    outputs = layer(inputs, training=True)
    loss = tf.reduce_sum(outputs * outputs * inputs)
gradients = tape.gradient(loss, [inputs, *layer.trainable_variables])
print("TRACE", "batch statistics", outputs.numpy().tolist(), [weight.numpy().tolist() for weight in layer.weights])
print("TRACE", "batch gradients", [gradient.numpy().tolist() for gradient in gradients])
