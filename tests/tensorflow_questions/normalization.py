hvd.init()
r = hvd.rank()


def normalized(training=True, **options):
    layer = hvd.SyncBatchNormalization(**options)
    x = tf.Variable(tf.reshape(tf.range(8.0), [4, 2]) * (r + 1) ** 2)
    with tf.GradientTape(persistent=True) as tape:
        y = layer(x, training=training)
        loss = tf.reduce_sum(y * tf.reshape(tf.range(8.0), [4, 2]) * (r + 1))
    return y, tape.gradient(loss, x), tape.gradient(loss, layer.gamma), layer.moving_mean, layer.moving_variance, layer.name


def fit():
    tf.keras.utils.set_random_seed(1)
    random = np.random.RandomState(r)
    inputs = random.rand(8, 3).astype("float32")
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(3,)), hvd.SyncBatchNormalization(momentum=0.9), tf.keras.layers.Dense(1)])
    model.compile(hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), "mse")
    found = model.fit(inputs, inputs.sum(1, keepdims=True), batch_size=4, epochs=2, verbose=0, shuffle=False)
    return weights(model), history(found)


ask("default", normalized)
ask("predicting", lambda: normalized(training=False))
ask("axis", lambda: normalized(axis=-1, momentum=0.5, name="mine"))
ask("fused", lambda: normalized(fused=True))
ask("graph", lambda: tf.function(lambda layer: layer(tf.reshape(tf.range(8.0), [4, 2]) * (r + 1), training=True))(hvd.SyncBatchNormalization()))
ask("fit", fit)
ask("is", lambda: isinstance(hvd.SyncBatchNormalization(), tf.keras.layers.BatchNormalization))
