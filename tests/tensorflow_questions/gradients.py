hvd.init()
r, n = hvd.rank(), hvd.size()


def gradient(question):
    """The result for a tensor, and the gradient, of which every rank takes another part."""
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        y = question(x * float(r + 1))
        parts = y if isinstance(y, (list, tuple)) else [y]
        loss = sum(tf.reduce_sum(part * (tf.reshape(tf.range(1.0, tf.cast(tf.size(part), tf.float32) + 1), tf.shape(part)))) for part in parts) * (r + 1)
    return y, tape.gradient(loss, x)


QUESTIONS = {
    "reduce": lambda x: hvd.allreduce(x),
    "reduce.sum": lambda x: hvd.allreduce(x, op=hvd.Sum),
    "reduce.max": lambda x: hvd.allreduce(x, op=hvd.Max),
    "reduce.min": lambda x: hvd.allreduce(x, op=hvd.Min),
    "reduce.product": lambda x: hvd.allreduce(x, op=hvd.Product),
    "reduce.scaled": lambda x: hvd.allreduce(x, prescale_factor=0.5, postscale_factor=3.0),
    "reduce.fp16": lambda x: hvd.allreduce(x, compression=hvd.Compression.fp16),
    "reduce.twice": lambda x: hvd.allreduce(hvd.allreduce(x, op=hvd.Sum) * x),
    "reduce.slices": lambda x: tf.convert_to_tensor(hvd.allreduce(tf.IndexedSlices(x, C([0, 2]), C([4, 2])))),
    "gather": lambda x: hvd.allgather(x),
    "gather.uneven": lambda x: hvd.allgather(x[: r + 1]),
    "broadcast.0": lambda x: hvd.broadcast(x, 0),
    "broadcast.1": lambda x: hvd.broadcast(x, 1),
    "scatter": lambda x: hvd.reducescatter(x),
    "scatter.sum": lambda x: hvd.reducescatter(x, op=hvd.Sum),
    "scatter.scaled": lambda x: hvd.reducescatter(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0),
    "exchange": lambda x: hvd.alltoall(x),
    "exchange.splits": lambda x: hvd.alltoall(x, splits=C([r, 2 - r]))[0],
    "grouped": lambda x: hvd.grouped_allreduce([x, x * 2]),
    "grouped.sum": lambda x: hvd.grouped_allreduce([x, x * 2], op=hvd.Sum),
    "grouped.gather": lambda x: hvd.grouped_allgather([x, x[:1] * 2]),
    "grouped.scatter": lambda x: hvd.grouped_reducescatter([x, x * 2]),
    "grouped.scatter.sum": lambda x: hvd.grouped_reducescatter([x, x * 2], op=hvd.Sum),
}
for name, question in QUESTIONS.items():
    ask(name, lambda: gradient(question))
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    @tf.function
    def in_graph():
        with tf.GradientTape() as tape:
            y = question(x * float(r + 1))
            parts = y if isinstance(y, (list, tuple)) else [y]
            loss = tf.add_n([tf.reduce_sum(part * part) for part in parts]) * (r + 1)
        return tape.gradient(loss, x)

    if not name.startswith("broadcast"):  # where it is multiplied by zero, TensorFlow leaves out the reduction, and ranks wait
        ask(f"{name}.graph", in_graph)


def second():
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = tf.reduce_sum(hvd.allreduce(x * (r + 1.0)) ** 3)
        first = inner.gradient(loss, x)
    return first, outer.gradient(first, x)


ask("second", second)
