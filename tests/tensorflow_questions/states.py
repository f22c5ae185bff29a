hvd.init()
r = hvd.rank()
X, Y = np.array([[1.0, 2.0]], np.float32) * (r + 1), np.zeros((1, 1), np.float32)


def built(optimizer, start):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer=tf.keras.initializers.Constant(start), input_shape=(2,))])
    model.compile(optimizer=hvd_keras.DistributedOptimizer(optimizer), loss="mse")
    return model


def of(state, model):
    return weights(model), [value for value in model.optimizer.variables()], state.epoch, state.batch


for which, kinds in optimizers():
    model = built(kinds.SGD(0.1 * (r + 1), momentum=0.5), 1.0 + r)
    model.fit(X, Y, verbose=0)
    state = hvd.elastic.TensorFlowKerasState(model, epoch=3 + r, batch=r) if which == "new" else hvd_keras.elastic.KerasState(model, epoch=3 + r, batch=r)
    ask(f"{which}.start", lambda: of(state, model))
    ask(f"{which}.sync", lambda: (state.sync(), *of(state, model)))
    state.epoch, state.batch = 7, 8
    model.set_weights([np.full((2, 1), 5.0)])
    ask(f"{which}.restore", lambda: (state.restore(), *of(state, model)))
    state.epoch = 9
    model.set_weights([np.full((2, 1), 6.0)])
    ask(f"{which}.commit", lambda: (state.commit(), *of(state, model)))
    model.set_weights([np.full((2, 1), 7.0)])
    ask(f"{which}.restore.again", lambda: (state.restore(), *of(state, model)))
    ask(f"{which}.other", lambda: hvd.elastic.TensorFlowKerasState(model, optimizer=kinds.Adam(0.1), epoch=1, batch=0).optimizer.__class__.__name__)
ask("unbuilt", lambda: hvd.elastic.TensorFlowKerasState(tf.keras.Sequential([tf.keras.layers.Dense(1)]), tf.keras.optimizers.SGD()))
value = tf.Variable([1.0 + r])
plain = hvd.elastic.TensorFlowState([value], step=r)
ask("plain.start", lambda: (value, plain.step))
ask("plain.sync", lambda: (plain.sync(), value, plain.step))
value.assign([5.0])
ask("plain.restore", lambda: (plain.restore(), value, plain.step))
log = []


@hvd.elastic.run
def train(state, word, times=1):
    log.append((word, times, state.epoch, weights(model)))
    return "done"


ask("run", lambda: (train(state, "word", times=2), log))


def with_callbacks(times):
    E = hvd_keras.elastic
    state = E.KerasState(model, batch=0, epoch=0)
    seen = []
    state.commit = lambda: seen.append(("commit", state.batch, state.epoch))
    callbacks = [E.UpdateBatchStateCallback(state), E.UpdateEpochStateCallback(state), E.CommitStateCallback(state, batches_per_commit=times)]
    model.fit(np.repeat(X, 5, 0), np.repeat(Y, 5, 0), batch_size=1, epochs=2, verbose=0, callbacks=callbacks)
    return seen


ask("callbacks", lambda: with_callbacks(1))
ask("callbacks.2", lambda: with_callbacks(2))
