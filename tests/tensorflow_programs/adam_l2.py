"""fit with Adam and L2: sample weights, unequal last batches, validation, early stopping by the averaged metric."""
import argparse

import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd
from tensorflow.keras import layers, regularizers

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--base-lr", type=float, default=0.02)


def load_data():
    random = np.random.RandomState(11)
    x = random.normal(size=(90, 5)).astype("float32")
    y = np.sin(x[:, :1]) + 0.3 * x[:, 1:2]
    weights = random.uniform(0.5, 1.5, size=90).astype("float32")
    mine = slice(hvd.rank(), None, hvd.size())
    return (x[mine], y[mine], weights[mine]), (x[::9], y[::9])


def build_model(lr):
    model = tf.keras.models.Sequential()
    model.add(layers.Input(shape=(5,)))
    model.add(layers.Dense(10, activation="tanh", kernel_regularizer=regularizers.l2(1e-3)))
    model.add(layers.Dense(6, activation="tanh", bias_regularizer=regularizers.l2(1e-2)))
    model.add(layers.Dense(1))
    opt = tf.keras.optimizers.Adam(lr * hvd.size(), epsilon=1e-5)
    opt = hvd.DistributedOptimizer(opt)
    model.compile(optimizer=opt, loss=tf.keras.losses.MeanSquaredError(), weighted_metrics=["mae"])
    return model


def main():
    args = parser.parse_args()
    hvd.init()
    tf.keras.utils.set_random_seed(100 + hvd.rank())
    (x, y, weights), validation = load_data()
    model = build_model(args.base_lr)
    stopping = tf.keras.callbacks.EarlyStopping(monitor="val_loss", min_delta=0.1, patience=1)
    history = model.fit(
        x,
        y,
        sample_weight=weights,
        batch_size=args.batch_size,
        epochs=args.epochs,
        shuffle=False,
        validation_data=validation,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), stopping],
        verbose=2 if hvd.rank() == 0 else 0,
    )
    print("TRACE weights", [value.tolist() for value in model.get_weights()])
    print("TRACE history", {key: [float(value) for value in history.history[key]] for key in sorted(history.history)})
    print("TRACE stopped", stopping.stopped_epoch)


if __name__ == "__main__":
    main()
