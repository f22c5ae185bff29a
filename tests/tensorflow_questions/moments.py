"""What the callbacks do, and when."""
hvd.init()
r, n = hvd.rank(), hvd.size()
K = hvd_keras.callbacks
X, Y = np.array([[1.0, 2.0]], np.float32) * (r + 1), np.zeros((1, 1), np.float32)


class Seen(tf.keras.callbacks.Callback):
    """Weights, rates and logs at every call."""

    def __init__(self):
        super().__init__()
        self.log = []

    def add(self, when, logs=None):
        optimizer = self.model.optimizer
        momentum = getattr(optimizer, "momentum", None)
        momentum = round(float(tf.convert_to_tensor(momentum)), 8) if momentum is not None else None
        rate = round(float(tf.convert_to_tensor(optimizer.learning_rate)), 8)
        logs = {key: float(value) for key, value in sorted((logs or {}).items())}
        self.log.append((when, weights(self.model), rate, momentum, int(optimizer.iterations.numpy()), logs))

    def on_train_begin(self, logs=None):
        self.add("train")

    def on_train_batch_begin(self, batch, logs=None):
        self.add(f"begin {batch}")

    def on_train_batch_end(self, batch, logs=None):
        self.add(f"end {batch}", logs)

    def on_epoch_end(self, epoch, logs=None):
        self.add(f"epoch {epoch}", logs)


ONLY_NEW = ("broadcast.1", "broadcast.before", "broadcast.local", "broadcast.one_local", "broadcast.wrong", "average.before", "average.validation", "schedule.adam", "schedule.adam.smooth", "schedule.adam.function", "schedule.adam.uncorrected", "warmup.detected", "both")


def fit(key, optimizer, callbacks, epochs=1, steps=2, start=1.0, before=False, **options):
    seen = Seen()
    if key.startswith("legacy.") and key.removeprefix("legacy.") in ONLY_NEW:
        return

    def question():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer=tf.keras.initializers.Constant(start), input_shape=(2,))])
        model.compile(optimizer=hvd_keras.DistributedOptimizer(optimizer()), loss=lambda y, p: tf.reduce_sum(p))
        order = [seen, *callbacks(model)] if before else [*callbacks(model), seen]
        found = model.fit(np.repeat(X, steps, 0), np.repeat(Y, steps, 0), batch_size=1, epochs=epochs, verbose=0, shuffle=False, callbacks=order, **options)
        return history(found)

    ask(key, question)
    ask(f"{key}.seen", lambda: seen.log)


for which, kinds in optimizers():
    sgd = lambda: kinds.SGD(1.0)
    fit(f"{which}.broadcast", sgd, lambda model: [K.BroadcastGlobalVariablesCallback(0)], start=10.0 * (r + 1))
    fit(f"{which}.broadcast.1", sgd, lambda model: [K.BroadcastGlobalVariablesCallback(1)], start=10.0 * (r + 1))
    fit(f"{which}.broadcast.before", sgd, lambda model: [K.BroadcastGlobalVariablesCallback(0, device="/cpu:0")], start=10.0 * (r + 1), before=True)
    fit(f"{which}.broadcast.momentum", lambda: kinds.SGD(1.0 + r, momentum=0.5), lambda model: [K.BroadcastGlobalVariablesCallback(0)], start=10.0 * (r + 1), steps=3)
    fit(f"{which}.broadcast.adam", lambda: kinds.Adam(1.0 + r), lambda model: [K.BroadcastGlobalVariablesCallback(0)], start=10.0 * (r + 1), steps=3)
    fit(f"{which}.broadcast.local", sgd, lambda model: [K.BroadcastGlobalVariablesCallback(0, local_variables=list(model.variables))], start=10.0 * (r + 1))
    fit(f"{which}.broadcast.one_local", sgd, lambda model: [K.BroadcastGlobalVariablesCallback(0, local_variables=model.variables[0])], start=10.0 * (r + 1))
    fit(f"{which}.broadcast.wrong", sgd, lambda model: [K.BroadcastGlobalVariablesCallback(0, local_variables=["x"])])
    fit(f"{which}.broadcast.twice_fit", sgd, lambda model: [K.BroadcastGlobalVariablesCallback(0)], start=10.0 * (r + 1), epochs=2)
    fit(f"{which}.average", sgd, lambda model: [K.MetricAverageCallback()], epochs=2)
    fit(f"{which}.average.before", sgd, lambda model: [K.MetricAverageCallback(device="/cpu:0")], before=True)
    fit(f"{which}.average.validation", sgd, lambda model: [K.MetricAverageCallback()], validation_data=(X * 3, Y))
    rate = lambda **options: lambda: kinds.SGD(0.1, **options)
    warm = lambda **options: lambda model: [K.LearningRateWarmupCallback(initial_lr=0.1, **options)]
    fit(f"{which}.warmup", rate(), warm(warmup_epochs=2, steps_per_epoch=2), 3)
    fit(f"{which}.warmup.plain", rate(), warm(warmup_epochs=2, steps_per_epoch=2, momentum_correction=False), 3)
    fit(f"{which}.warmup.detected", rate(), warm(warmup_epochs=2, momentum_correction=False), 3)
    fit(f"{which}.warmup.momentum", rate(momentum=0.9), warm(warmup_epochs=2), 3)
    fit(f"{which}.warmup.uncorrected", rate(momentum=0.9), warm(warmup_epochs=2, momentum_correction=False), 3)
    fit(f"{which}.warmup.adam", lambda: kinds.Adam(0.1), warm(warmup_epochs=2), 3)
    plan = lambda *args, **options: lambda model: [K.LearningRateScheduleCallback(*args, **options)]
    for name, optimizer in {"sgd": rate(), "adam": lambda: kinds.Adam(0.1)}.items():
        fit(f"{which}.schedule.{name}", optimizer, plan(0.1, 0.5, start_epoch=1, end_epoch=3), 4)
        fit(f"{which}.schedule.{name}.smooth", optimizer, plan(0.1, 0.5, start_epoch=1, end_epoch=3, staircase=False, steps_per_epoch=2), 4)
        fit(f"{which}.schedule.{name}.detected", optimizer, plan(0.1, 0.5, staircase=False, momentum_correction=False), 2)
        fit(f"{which}.schedule.{name}.function", optimizer, plan(initial_lr=0.1, multiplier=lambda epoch: 1 / (1 + epoch), momentum_correction=False), 3)
        fit(f"{which}.schedule.{name}.uncorrected", optimizer, plan(initial_lr=0.1, multiplier=3, momentum_correction=False), 3)
    fit(f"{which}.schedule.momentum", rate(momentum=0.9), plan(0.1, 0.5), 3)
    fit(f"{which}.both", lambda: kinds.Adam(0.1), lambda model: [*warm(warmup_epochs=1)(model), *plan(0.1, 0.1, start_epoch=1)(model)], 3)
ask("no_rate", lambda: K.LearningRateScheduleCallback(None, 0.5))
ask("best", lambda: (lambda found: [type(found).__mro__[1].__name__, found.save_best_only, found.filepath, found.monitor, found.save_weights_only])(K.BestModelCheckpoint(monitor="loss")))
