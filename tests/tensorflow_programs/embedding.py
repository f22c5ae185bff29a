"""Embeddings, whose gradients are sparse, and words that only one worker has seen."""
import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

VOCABULARY, LENGTH = 30, 6


def reviews():
    random = np.random.RandomState(21)
    words = random.randint(0, VOCABULARY // hvd.size(), size=(48, LENGTH)) + hvd.rank() * (VOCABULARY // hvd.size() - 4)
    labels = (words.sum(axis=1) % 3 == 0).astype("float32")
    return tf.data.Dataset.from_tensor_slices((words, labels)).batch(8)


def build():
    words = tf.keras.Input(shape=(LENGTH,), dtype="int32")
    embedded = tf.keras.layers.Embedding(VOCABULARY, 4, name="words")(words)
    pooled = tf.keras.layers.GlobalAveragePooling1D()(embedded)
    hidden = tf.keras.layers.Dense(8, activation="relu")(pooled)
    return tf.keras.Model(words, tf.keras.layers.Dense(1, activation="sigmoid")(hidden))


hvd.init()
tf.keras.utils.set_random_seed(17)
model = build()
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(learning_rate=0.05))
model.compile(loss="binary_crossentropy", optimizer=optimizer, metrics=["accuracy"])
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
history = model.fit(reviews(), epochs=3, callbacks=callbacks, verbose=0)
print("TRACE", "words", model.get_layer("words").get_weights()[0].tolist())
print("TRACE", "weights", [value.tolist() for value in model.get_weights()[1:]])
print("TRACE", "history", history.history["loss"], history.history["accuracy"])

dense = build()
dense.set_weights(model.get_weights())
sparse_as_dense = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9), sparse_as_dense=True)
dense.compile(loss="binary_crossentropy", optimizer=sparse_as_dense)
dense.fit(reviews(), epochs=2, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)], verbose=0)
print("TRACE", "as dense", [value.tolist() for value in dense.get_weights()])
