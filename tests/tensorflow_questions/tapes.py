hvd.init()
r = hvd.rank()
x, u = tf.Variable([2.0, 3.0], name="x"), tf.Variable([5.0], name="u")
e = tf.Variable(tf.ones([4, 1]), name="e")
same = [tf.Variable([2.0, 3.0]), tf.Variable([5.0])]


def taped(sources=None, record=tf.GradientTape, loss=None, **options):
    with record() as tape:
        value = tf.reduce_sum(x * float(r + 1)) if loss is None else loss()
    return hvd.DistributedGradientTape(tape, **options).gradient(value, [x, u] if sources is None else sources)


def embedded():
    return tf.reduce_sum(tf.gather(e, [0, r + 1]) * float(r + 1)) + tf.reduce_sum(x * x) * (r + 1.0)


OPTIONS = {
    "default": {},
    "sum": {"op": hvd.Sum},
    "min": {"op": hvd.Min},
    "adasum": {"op": hvd.Adasum},
    "predivide": {"gradient_predivide_factor": 2.0},
    "predivide.sum": {"gradient_predivide_factor": 2.0, "op": hvd.Sum},
    "fp16": {"compression": hvd.Compression.fp16},
    "groups": {"groups": 1},
    "groups.list": {"groups": [[x, e]]},
    "groups.zero": {"groups": 0},
    "num_groups": {"num_groups": 2},
    "dense": {"sparse_as_dense": True},
    "sparse.predivide": {"sparse_as_dense": True, "gradient_predivide_factor": 2.0},
}
for name, options in OPTIONS.items():
    ask(f"{name}", lambda: taped(**options))
    ask(f"{name}.sparse", lambda: taped([x, e], loss=embedded, **options))
    ask(f"{name}.graph", lambda: in_function(lambda: taped([x, e], loss=embedded, **options)))
ask("groups.same_names", lambda: taped(same, loss=lambda: tf.reduce_sum(same[0]) * same[1][0], groups=[same]))
ask("single", lambda: taped(x))
ask("dict", lambda: taped({"x": x}))
ask("tuple", lambda: taped((x, u)))
ask("nested", lambda: taped([[x], u]))
ask("twice", lambda: taped([x, x]))


def context():
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_sum(x * float(r + 1))
    return tape.gradient(loss, [x])


def persistent():
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_sum(x * float(r + 1))
    tape = hvd.DistributedGradientTape(tape)
    return tape.gradient(loss, [x]), tape.gradient(loss * 2, [x])


def unwatched():
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        loss = tf.reduce_sum(x * u * float(r + 1))
    return hvd.DistributedGradientTape(tape).gradient(loss, [x, u])


def outputs():
    with tf.GradientTape() as tape:
        y = x * float(r + 1)
    return hvd.DistributedGradientTape(tape).gradient(y, [x], output_gradients=C([1.0, 10.0]))


def generic():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x * float(r + 1))
    return hvd.DistributedGradientTape(tape).gradient(loss, [x], use_generic_names=True)


def local(scale=True, sparse=False, **options):
    with tf.GradientTape() as tape:
        loss = embedded() if sparse else tf.reduce_sum(x * float(r + 1)) + u[0] * (r + 1)
    tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scale, **options)
    tape.register_local_source(e if sparse else u)
    return tape.gradient(loss, [x, e] if sparse else [x, u])


def split():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x * float(r + 1)) + u[0] * (r + 1)
    tape = hvd.DistributedGradientTape(tape)
    tape.register_local_source(u)
    mine, ours = tape.get_local_and_global_gradients(loss, [x, u])
    return [gradient for _, gradient in mine], [gradient for _, gradient in ours]


def partial(layers, **options):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,)), tf.keras.layers.Dense(1, kernel_initializer="ones")])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(C([[1.0, 2.0]]) * (r + 1)))
    tape = hvd.PartialDistributedGradientTape(tape, local_layers=layers(model), **options)
    return tape.gradient(loss, model.trainable_variables)


for name, question in {"context": context, "persistent": persistent, "unwatched": unwatched, "outputs": outputs, "generic": generic, "local": local, "split": split}.items():
    ask(name, question)
ask("local.unscaled", lambda: local(scale=False))
ask("local.sparse", lambda: local(sparse=True))
ask("local.sparse.dense", lambda: local(sparse=True, sparse_as_dense=True))
ask("partial", lambda: partial(lambda model: model.layers[1]))
ask("partial.list", lambda: partial(lambda model: [model.layers[0]], scale_local_gradients=False))
ask("partial.none", lambda: partial(lambda model: None))
ask("partial.wrong", lambda: partial(lambda model: ["x"]))
ask("type", lambda: [type(hvd.DistributedGradientTape(tf.GradientTape())).__name__, isinstance(hvd.DistributedGradientTape(tf.GradientTape()), tf.GradientTape)])


def loop(optimizer):
    """Three steps in a graph, with a broadcast after the first."""
    tf.keras.utils.set_random_seed(r)
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, activation="tanh", input_shape=(2,)), tf.keras.layers.Dense(1)])
    inputs = C([[0.5, 1.0], [2.0, -1.0], [0.1, 0.2]]) * (r + 1)

    @tf.function
    def step(first):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs, training=True) - 1.0) ** 2)
        tape = hvd.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        if first:
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables(), root_rank=0)
        return loss

    return [step(k == 0) for k in range(3)], weights(model)


for which, kinds in optimizers():
    ask(f"loop.{which}", lambda: loop(kinds.Adam(0.1)))
    ask(f"loop.momentum.{which}", lambda: loop(kinds.SGD(0.1, momentum=0.9)))
