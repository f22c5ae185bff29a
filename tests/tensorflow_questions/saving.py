import tempfile

hvd.init()
r = hvd.rank()
folder = tempfile.mkdtemp()
X, Y = np.array([[1.0, 2.0]], np.float32) * (r + 1), np.zeros((1, 1), np.float32)


class Own(tf.keras.optimizers.SGD):
    pass


def built(optimizer):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(2,))])
    model.compile(optimizer=optimizer, loss="mse")
    return model


def saved(optimizer, suffix, load=hvd_keras.load_model, **options):
    """The optimizer of a model that was saved and loaded, the weights, and those after another step."""
    model = built(optimizer)
    model.fit(X, Y, verbose=0)
    path = f"{folder}/model.{suffix}"
    model.save(path)
    loaded = load(path, **options)
    before = weights(loaded)
    loaded.fit(X, Y, verbose=0)
    return type(loaded.optimizer).__name__, type(loaded.optimizer).__module__.removeprefix("tf_"), before, weights(loaded), int(loaded.optimizer.iterations.numpy())


for which, kinds in optimizers():
    for suffix in ("h5", "keras"):
        ask(f"{which}.sgd.{suffix}", lambda: saved(hvd_keras.DistributedOptimizer(kinds.SGD(0.1)), suffix))
        ask(f"{which}.adam.{suffix}", lambda: saved(hvd_keras.DistributedOptimizer(kinds.Adam(0.1)), suffix))
        ask(f"{which}.unwrapped.{suffix}", lambda: saved(kinds.Adam(0.1), suffix))
        ask(f"{which}.plain_load.{suffix}", lambda: saved(hvd_keras.DistributedOptimizer(kinds.Adam(0.1)), suffix, tf.keras.models.load_model))
        if which == "legacy":
            ask(f"{which}.legacy_opts.{suffix}", lambda: saved(hvd_keras.DistributedOptimizer(kinds.Adam(0.1)), suffix, legacy_opts=True))
for suffix in ("h5", "keras"):
    ask(f"own.{suffix}", lambda: saved(hvd_keras.DistributedOptimizer(Own(0.1)), suffix, custom_optimizers=[Own]))
    ask(f"objects.{suffix}", lambda: saved(hvd_keras.DistributedOptimizer(Own(0.1)), suffix, custom_objects={"Own": lambda **config: hvd_keras.DistributedOptimizer(Own(**config))}))
    ask(f"compressed.{suffix}", lambda: saved(hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), suffix, compression=hvd.Compression.fp16))


def checkpointed():
    """Weights and momenta come back from a checkpoint of TensorFlow."""
    model = built(hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9)))
    model.fit(X, Y, verbose=0)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(f"{folder}/checkpoint")
    again = built(hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9)))
    tf.train.Checkpoint(model=again, optimizer=again.optimizer).restore(path)
    again.fit(X, Y, verbose=0)
    return weights(again), again.optimizer.iterations


ask("checkpoint", checkpointed)
