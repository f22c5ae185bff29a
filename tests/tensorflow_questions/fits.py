hvd.init()
r, n = hvd.rank(), hvd.size()
X, Y = np.array([[1.0, 2.0]], np.float32) * (r + 1), np.zeros((1, 1), np.float32)


def fit(optimizer, steps=1, epochs=1, eager=False, layers=(), callbacks=(), built=None):
    """Weights and losses after some steps with the gradient (1, 2) * (rank + 1)."""
    model = built or tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(2,)), *layers])
    model.compile(optimizer=optimizer, loss=lambda y, p: tf.reduce_sum(p), run_eagerly=eager)
    found = model.fit(np.repeat(X, steps, 0), np.repeat(Y, steps, 0), batch_size=1, epochs=epochs, verbose=0, shuffle=False, callbacks=list(callbacks))
    return weights(model), history(found)


OPTIONS = {
    "default": {},
    "sum": {"op": hvd.Sum},
    "predivide": {"gradient_predivide_factor": 2.0},
    "predivide.sum": {"gradient_predivide_factor": 2.0, "op": hvd.Sum},
    "fp16": {"compression": hvd.Compression.fp16},
    "groups": {"groups": 1},
    "num_groups": {"num_groups": 1},
    "groups.zero": {"groups": 0},
    "named": {"name": "mine"},
    "dense": {"sparse_as_dense": True},
    "adasum": {"op": hvd.Adasum},
    "min": {"op": hvd.Min},
    "passes.0": {"backward_passes_per_step": 0},
}


def embedding(optimizer):
    model = tf.keras.Sequential([tf.keras.layers.Embedding(4, 2, embeddings_initializer="ones", input_length=2), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(optimizer=optimizer, loss="mse")
    found = model.fit(np.array([[0, r + 1], [r, 2]]), np.zeros((2, 1)), batch_size=1, epochs=2, verbose=0, shuffle=False)
    return weights(model), history(found)


def trained(optimizer, **compiled):
    tf.keras.utils.set_random_seed(4)
    random = np.random.RandomState(r)
    inputs = random.rand(12, 3).astype("float32")
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="tanh", kernel_regularizer=tf.keras.regularizers.L2(0.01), input_shape=(3,)), tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(1)])
    model.compile(optimizer=optimizer, loss="mse", metrics=["mae"], **compiled)
    found = model.fit(inputs, inputs.sum(1, keepdims=True), batch_size=5, epochs=2, verbose=0, shuffle=False, validation_data=(inputs[:4], inputs[:4, :1]))
    return weights(model), history(found)


def described(optimizer):
    return type(optimizer).__name__, type(optimizer).__module__, optimizer._name, {key: str(value) for key, value in optimizer.get_config().items()}


def direct(optimizer):
    value = tf.Variable([1.0])
    optimizer.apply_gradients([(C([r + 1.0]), value)])
    return value


def minimized(optimizer):
    value = tf.Variable([1.0])
    optimizer.minimize(lambda: tf.reduce_sum(value * (r + 1.0)), [value])
    return value


def taped(optimizer):
    value = tf.Variable([1.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(value * (r + 1.0))
    gradients = hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, [value])
    optimizer.apply_gradients(zip(gradients, [value]))
    return value


def computed(optimizer):
    value = tf.Variable([1.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(value * (r + 1.0))
    return [gradient for gradient, _ in optimizer.compute_gradients(loss, [value], tape=tape)]


class OwnStep(tf.keras.Sequential):
    """A model that applies gradients by itself."""

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(inputs, targets, self(inputs, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


class Averaged(OwnStep):
    """One that uses Horovod's tape."""

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(inputs, targets, self(inputs, training=True))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


def own(kind, optimizer):
    return fit(optimizer, 2, built=kind([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(2,))]))


def local(optimizer, scale=True):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(2,)), tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    for value in model.layers[1].trainable_weights:
        optimizer.register_local_var(value)
    return fit(optimizer, 2, built=model)


class Iterations(tf.keras.callbacks.Callback):
    """How often the optimizer has been applied, by its own count."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(int(self.model.optimizer.iterations.numpy()))


def counted(optimizer):
    counts = Iterations()
    fit(optimizer, 5, callbacks=[counts])
    return counts.seen


W = hvd_keras.DistributedOptimizer
for which, kinds in optimizers():
    for name, options in OPTIONS.items():
        if which == "legacy" and name not in ("default", "sum", "predivide", "fp16"):
            continue
        ask(f"{which}.{name}", lambda: fit(W(kinds.SGD(1.0), **options), 2))
    if which == "new":
        ask(f"{which}.eager", lambda: fit(W(kinds.SGD(1.0)), eager=True))
    ask(f"{which}.unwrapped", lambda: fit(kinds.SGD(1.0)))
    for passes, steps in ((2, 1), (2, 3), (3, 6)):
        for average in (False, True):
            ask(f"{which}.passes.{passes}.{steps}.{average}", lambda: fit(W(kinds.SGD(1.0), backward_passes_per_step=passes, average_aggregated_gradients=average), steps))
    ask(f"{which}.passes.epochs", lambda: fit(W(kinds.SGD(1.0), backward_passes_per_step=2), 3, 2))
    if which == "new":
        ask(f"{which}.passes.sum", lambda: fit(W(kinds.SGD(1.0), backward_passes_per_step=2, op=hvd.Sum), 2))
    ask(f"{which}.passes.momentum", lambda: fit(W(kinds.SGD(1.0, momentum=0.5), backward_passes_per_step=2), 5))
    ask(f"{which}.passes.adam", lambda: trained(W(kinds.Adam(0.1), backward_passes_per_step=2, average_aggregated_gradients=True)))
    if which == "new":
        ask(f"{which}.passes.eager", lambda: fit(W(kinds.SGD(1.0), backward_passes_per_step=2), 3, eager=True))
    ask(f"{which}.passes.embedding", lambda: embedding(W(kinds.SGD(0.1), backward_passes_per_step=2)))
    if which == "new":
        ask(f"{which}.passes.embedding.dense", lambda: embedding(W(kinds.SGD(0.1), backward_passes_per_step=2, sparse_as_dense=True)))
    ask(f"{which}.passes.direct", lambda: direct(W(kinds.SGD(1.0), backward_passes_per_step=2)))
    ask(f"{which}.iterations", lambda: counted(W(kinds.SGD(1.0), backward_passes_per_step=2)))
    ask(f"{which}.embedding", lambda: embedding(W(kinds.Adam(0.1))))
    if which == "new":
        ask(f"{which}.embedding.sum", lambda: embedding(W(kinds.SGD(0.1), op=hvd.Sum)))
    if which == "new":
        ask(f"{which}.embedding.dense", lambda: embedding(W(kinds.Adam(0.1), sparse_as_dense=True)))
    ask(f"{which}.trained.sgd", lambda: trained(W(kinds.SGD(0.1, momentum=0.9, nesterov=True))))
    ask(f"{which}.trained.adam", lambda: trained(W(kinds.Adam(0.1))))
    ask(f"{which}.trained.clipnorm", lambda: trained(W(kinds.SGD(0.1, clipnorm=0.1))))
    ask(f"{which}.trained.global_clipnorm", lambda: trained(W(kinds.SGD(0.1, global_clipnorm=0.1))))
    if which == "new":
        ask(f"{which}.trained.several", lambda: trained(W(kinds.SGD(0.1)), steps_per_execution=2))
    ask(f"{which}.described", lambda: described(W(kinds.SGD(0.25, momentum=0.9))))
    ask(f"{which}.described.named", lambda: described(W(kinds.Adam(0.25), name="mine")))
    ask(f"{which}.instance", lambda: [isinstance(W(kinds.Adam()), kinds.Adam), isinstance(W(kinds.Adam()), kinds.Optimizer)])
    ask(f"{which}.twice", lambda: type(W(W(kinds.SGD(1.0)))).__name__)
    ask(f"{which}.direct", lambda: direct(W(kinds.SGD(1.0))))
    ask(f"{which}.minimized", lambda: minimized(W(kinds.SGD(1.0))))
    ask(f"{which}.taped", lambda: taped(W(kinds.SGD(1.0))))
    ask(f"{which}.computed", lambda: computed(W(kinds.SGD(1.0))))
    ask(f"{which}.own_step", lambda: own(OwnStep, W(kinds.SGD(1.0))))
    ask(f"{which}.own_step.averaged", lambda: own(Averaged, W(kinds.SGD(1.0))))
    ask(f"{which}.local", lambda: local(W(kinds.SGD(0.1))))
    if which == "new":
        ask(f"{which}.local.unscaled", lambda: local(W(kinds.SGD(0.1), scale_local_gradients=False)))
    if which == "new":
        ask(f"{which}.local.passes", lambda: local(W(kinds.SGD(0.1), backward_passes_per_step=2)))
    ask(f"{which}.tensorflow", lambda: fit(hvd.DistributedOptimizer(kinds.SGD(1.0), backward_passes_per_step=2), 2))
    ask(f"{which}.tensorflow.sum", lambda: fit(hvd.DistributedOptimizer(kinds.SGD(1.0), op=hvd.Sum)))
    ask(f"{which}.tensorflow.adasum", lambda: fit(hvd.DistributedOptimizer(kinds.SGD(1.0), op=hvd.Adasum)))
    ask(f"{which}.tensorflow.predivide", lambda: fit(hvd.DistributedOptimizer(kinds.SGD(1.0), op=hvd.Sum, gradient_predivide_factor=2.0)))
    ask(f"{which}.variables", lambda: [variable.shape.as_list() for variable in W(kinds.Adam()).variables()])
    ask(f"{which}.schedule", lambda: fit(W(kinds.SGD(tf.keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5))), 3))
    ask(f"{which}.decayed", lambda: trained(W(kinds.SGD(0.1, **({"weight_decay": 0.1} if which == "new" else {"decay": 0.1})))))
    ask(f"{which}.mixed", lambda: fit(tf.keras.mixed_precision.LossScaleOptimizer(W(kinds.SGD(1.0))), 2))


def version_1(**options):
    """An optimizer of TensorFlow 1, which works with functions too."""
    optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0), **options)
    value, other = tf.Variable([1.0]), tf.Variable([2.0])
    if "scale_local_gradients" in options:
        optimizer.register_local_var(other)
    pairs = optimizer.compute_gradients(lambda: tf.reduce_sum(value * other * (r + 1.0)), [value, other])
    optimizer.apply_gradients(pairs)
    return [gradient for gradient, _ in pairs], value, other, optimizer.get_slot_names(), optimizer.variables()


ask("version_1", version_1)
ask("version_1.sum", lambda: version_1(op=hvd.Sum))
ask("version_1.passes", lambda: version_1(backward_passes_per_step=2))
ask("version_1.adasum", lambda: version_1(op=hvd.Adasum))
ask("not_an_optimizer", lambda: hvd.DistributedOptimizer("sgd"))
