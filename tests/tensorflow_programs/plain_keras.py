"""horovod.keras with Keras itself: numpy data, callbacks by name, a mean of scores at the end."""
import numpy as np
import keras
from keras.layers import Dense, Dropout, Input
from keras.models import Sequential

import horovod.keras as hvd
from horovod.keras.callbacks import BroadcastGlobalVariablesCallback, LearningRateScheduleCallback, MetricAverageCallback

batch_size = 8
epochs = 4

hvd.init()
random = np.random.RandomState(101)
x_train, x_test = random.rand(80, 6).astype("float32"), random.rand(20, 6).astype("float32")
y_train, y_test = ((x.sum(axis=1) * 2).astype("int64") % 3 for x in (x_train, x_test))
y_train, y_test = keras.utils.to_categorical(y_train, 3), keras.utils.to_categorical(y_test, 3)

model = Sequential()
model.add(Input((6,)))
model.add(Dense(16, activation="relu"))
model.add(Dropout(0.0))
model.add(Dense(3, activation="softmax"))
model.set_weights([random.normal(scale=0.4, size=weight.shape) for weight in model.get_weights()])

# Horovod: adjust learning rate based on number of workers.
opt = keras.optimizers.Adadelta(1.0 * hvd.size())
opt = hvd.DistributedOptimizer(opt)
model.compile(loss=keras.losses.categorical_crossentropy, optimizer=opt, metrics=["accuracy"])
callbacks = [
    BroadcastGlobalVariablesCallback(0),
    MetricAverageCallback(),
    LearningRateScheduleCallback(initial_lr=1.0 * hvd.size(), multiplier=1e-1, start_epoch=2, momentum_correction=False),
]
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint("plain_keras-{epoch}.keras"))
history = model.fit(
    x_train[hvd.rank() :: hvd.size()],
    y_train[hvd.rank() :: hvd.size()],
    batch_size=batch_size,
    callbacks=callbacks,
    epochs=epochs,
    shuffle=False,
    verbose=1 if hvd.rank() == 0 else 0,
    validation_data=(x_test[hvd.rank() :: hvd.size()], y_test[hvd.rank() :: hvd.size()]),
)
score = hvd.allreduce(model.evaluate(x_test[hvd.rank() :: hvd.size()], y_test[hvd.rank() :: hvd.size()], verbose=0))
print("TRACE", "history", {name: [float(v) for v in values] for name, values in sorted(history.history.items())})
print("TRACE", "score", np.asarray(score).tolist(), np.asarray(hvd.allgather([float(hvd.rank())])).tolist())
print("TRACE", "weights", [weight.tolist() for weight in model.get_weights()])
