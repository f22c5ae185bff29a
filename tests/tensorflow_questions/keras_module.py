"""``horovod.keras``, for programs that ``import keras``."""
import keras

import horovod.keras as hk

hk.init()
r = hk.rank()
X, Y = np.array([[1.0, 2.0]], np.float32) * (r + 1), np.zeros((1, 1), np.float32)
SGD, Adam = keras.optimizers.SGD, keras.optimizers.Adam


def fit(optimizer, steps=2, epochs=1, callbacks=(), start=1.0, **options):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False, kernel_initializer=keras.initializers.Constant(start))])
    model.compile(optimizer=optimizer, loss=lambda y, p: tf.reduce_sum(p), **options)
    found = model.fit(np.repeat(X, steps, 0), np.repeat(Y, steps, 0), batch_size=1, epochs=epochs, verbose=0, shuffle=False, callbacks=list(callbacks))
    return weights(model), history(found)


def trained(optimizer, **compiled):
    keras.utils.set_random_seed(4)
    random = np.random.RandomState(r)
    start = np.random.RandomState(7)
    inputs = random.rand(12, 3).astype("float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
    model.set_weights([start.rand(*value.shape).astype("float32") for value in model.get_weights()])
    model.compile(optimizer=optimizer, loss="mse", **compiled)
    found = model.fit(inputs, inputs.sum(1, keepdims=True), batch_size=5, epochs=2, verbose=0, shuffle=False)
    return [[f"{element:.4f}" for element in value] for value in weights(model)]


def partial(**options):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones"), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    optimizer = hk.PartialDistributedOptimizer(SGD(0.1), local_layers=model.layers[1], **options)
    model.compile(optimizer=optimizer, loss=lambda y, p: tf.reduce_sum(p))
    model.fit(X, Y, verbose=0)
    return weights(model)


class Rates(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_begin(self, batch, logs=None):
        self.seen.append(round(float(tf.convert_to_tensor(self.model.optimizer.learning_rate)), 8))

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(weights(self.model))

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append({key: float(value) for key, value in sorted(logs.items())})


def rates(*callbacks, optimizer=Adam, epochs=3, start=1.0):
    seen = Rates()
    return fit(hk.DistributedOptimizer(optimizer(0.1)), epochs=epochs, callbacks=[*callbacks, seen], start=start), seen.seen


def direct():
    value = keras.Variable([1.0]) if hasattr(keras, "Variable") else tf.Variable([1.0])
    hk.DistributedOptimizer(SGD(1.0)).apply_gradients([(C([r + 1.0]), value)])
    return tf.convert_to_tensor(value)


def reloaded(suffix, optimizer):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(optimizer=hk.DistributedOptimizer(optimizer(0.1)), loss="mse")
    model.fit(X, Y, verbose=0)
    path = f"{os.getcwd()}/{r}.{suffix}"
    model.save(path)
    loaded = hk.load_model(path)
    loaded.fit(X, Y, verbose=0)
    return type(loaded.optimizer).__name__, type(loaded.optimizer).__module__, weights(loaded)


K = hk.callbacks
W = hk.DistributedOptimizer
for name, options in {"default": {}, "sum": {"op": hk.Sum}, "predivide": {"gradient_predivide_factor": 2.0}, "fp16": {"compression": hk.Compression.fp16}, "dense": {"sparse_as_dense": True}, "groups": {"groups": 1}, "min": {"op": hvd.Min}, "name": {"name": "mine"}}.items():
    ask(name, lambda: fit(W(SGD(1.0), **options)))
ask("eager", lambda: fit(W(SGD(1.0)), run_eagerly=True))
ask("unwrapped", lambda: fit(SGD(1.0)))
ask("sgd", lambda: trained(W(SGD(0.1, momentum=0.9))))
ask("adam", lambda: trained(W(Adam(0.01))))
ask("clipnorm", lambda: trained(W(SGD(0.1, global_clipnorm=0.1))))
ask("several", lambda: trained(W(SGD(0.1)), steps_per_execution=2))
ask("passes", lambda: fit(hvd_keras.DistributedOptimizer(SGD(1.0), backward_passes_per_step=2), 5))
ask("passes.average", lambda: fit(hvd_keras.DistributedOptimizer(SGD(1.0, momentum=0.5), backward_passes_per_step=2, average_aggregated_gradients=True), 6))
ask("passes.adam", lambda: trained(hvd_keras.DistributedOptimizer(Adam(0.01), backward_passes_per_step=3)))
ask("local", partial)
ask("local.unscaled", lambda: partial(scale_local_gradients=False))
ask("direct", direct)
ask("type", lambda: [type(W(SGD(1.0))).__name__, type(W(SGD(1.0))).__module__, isinstance(W(SGD(1.0)), SGD)])
ask("broadcast", lambda: rates(K.BroadcastGlobalVariablesCallback(0), start=10.0 * (r + 1), epochs=2))
ask("broadcast.sgd", lambda: rates(K.BroadcastGlobalVariablesCallback(1), start=10.0 * (r + 1), epochs=2, optimizer=SGD))
ask("average", lambda: rates(K.MetricAverageCallback()))
ask("warmup", lambda: rates(K.LearningRateWarmupCallback(0.1, warmup_epochs=2)))
ask("warmup.sgd", lambda: rates(K.LearningRateWarmupCallback(0.1, warmup_epochs=2), optimizer=SGD))
ask("warmup.sgd.plain", lambda: rates(K.LearningRateWarmupCallback(0.1, warmup_epochs=2, momentum_correction=False), optimizer=SGD))
ask("schedule", lambda: rates(K.LearningRateScheduleCallback(0.1, 0.5, start_epoch=1)))
ask("schedule.smooth", lambda: rates(K.LearningRateScheduleCallback(0.1, lambda epoch: 0.5**epoch, staircase=False)))
ask("functions", lambda: [hk.allreduce(1.0 + r), hk.allgather([1.0 + r]), hk.broadcast([1.0 + r], 1), hk.reducescatter([1.0, 2.0 + r])])
ask("reduce.sum", lambda: hk.allreduce(1.0 + r, op=hk.Sum))
ask("reduce.not_average", lambda: hk.allreduce(1.0 + r, average=False))
for suffix in ("h5", "keras"):
    ask(f"reloaded.{suffix}", lambda: reloaded(suffix, SGD))
    ask(f"reloaded.adam.{suffix}", lambda: reloaded(suffix, Adam))
