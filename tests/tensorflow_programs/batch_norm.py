"""BatchNormalization keeps statistics per worker; the first worker checkpoints, saves, evaluates and predicts."""
import os
import tempfile

import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

hvd.init()
gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.keras.utils.set_random_seed(42)
random = np.random.RandomState(hvd.rank())
images = random.rand(36, 8, 8, 1).astype("float32") + 0.2 * hvd.rank()
labels = (images.mean(axis=(1, 2, 3)) > 0.5 + 0.2 * hvd.rank()).astype("int64")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().batch(6)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(4, [3, 3], activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(6, use_bias=False),
        tf.keras.layers.BatchNormalization(momentum=0.9),
        tf.keras.layers.Activation("relu"),
        tf.keras.layers.Dense(2, activation="softmax"),
    ]
)
opt = tf.keras.optimizers.SGD(0.01 * hvd.size(), momentum=0.9, nesterov=True)
opt = hvd.DistributedOptimizer(opt, backward_passes_per_step=1, average_aggregated_gradients=True)
model.compile(
    loss=tf.keras.losses.SparseCategoricalCrossentropy(),
    optimizer=opt,
    metrics=["accuracy"],
    experimental_run_tf_function=False,
)
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
folder = tempfile.mkdtemp()
if hvd.rank() == 0:
    callbacks.append(tf.keras.callbacks.ModelCheckpoint(os.path.join(folder, "checkpoint-{epoch}.weights.h5"), save_weights_only=True))
verbose = 1 if hvd.rank() == 0 else 0
history = model.fit(dataset, steps_per_epoch=12 // hvd.size(), callbacks=callbacks, epochs=2, verbose=verbose)
if hvd.rank() == 0:
    print("TRACE", "files", sorted(os.listdir(folder)))
    model.save(os.path.join(folder, "model.h5"))
    loaded = tf.keras.models.load_model(os.path.join(folder, "model.h5"), compile=False)
    print("TRACE", "evaluated", [float(value) for value in model.evaluate(images, labels, batch_size=12, verbose=0)])
    print("TRACE", "predicted", loaded.predict(images[:3], verbose=0).tolist())
print("TRACE", "weights", [value.tolist() for value in model.get_weights()])
print("TRACE", "loss", [float(value) for value in history.history["loss"]])
