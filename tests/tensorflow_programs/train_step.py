"""A Model with a train_step of its own, whose tape averages, so that its optimizer is not wrapped."""
import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
from horovod.tensorflow.keras.callbacks import BroadcastGlobalVariablesCallback, MetricAverageCallback

hvd.init()
reconstruction = tf.keras.metrics.Mean(name="reconstruction")


class Autoencoder(tf.keras.Model):
    def __init__(self, width):
        super().__init__()
        self.encoder = tf.keras.layers.Dense(3, activation="tanh", kernel_regularizer=tf.keras.regularizers.L2(0.01))
        self.decoder = tf.keras.layers.Dense(width)

    def call(self, inputs, training=False):
        return self.decoder(self.encoder(inputs))

    @property
    def metrics(self):
        return [reconstruction]

    def train_step(self, data):
        with tf.GradientTape() as tape:
            error = tf.reduce_mean(tf.square(self(data, training=True) - data))
            loss = error + tf.add_n(self.losses)
        tape = hvd.DistributedGradientTape(tape)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        reconstruction.update_state(error)
        return {"reconstruction": reconstruction.result()}


random = np.random.RandomState(51)
data = random.normal(size=(44, 6)).astype("float32")[hvd.rank() :: hvd.size()]
model = Autoencoder(data.shape[1])
model(data[:1])
model.set_weights([random.normal(scale=0.3, size=value.shape) for value in model.get_weights()])
model.compile(optimizer=tf.keras.optimizers.RMSprop(0.01 * hvd.size(), momentum=0.5))
callbacks = [BroadcastGlobalVariablesCallback(0), MetricAverageCallback()]
history = model.fit(data, batch_size=6, epochs=3, shuffle=False, callbacks=callbacks, verbose=0)
print("TRACE", "weights", [value.tolist() for value in model.get_weights()])
print("TRACE", "history", [float(value) for value in history.history["reconstruction"]])
