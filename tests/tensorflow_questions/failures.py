"""What happens after failures: Horovod itself, started again in one process, crashes with TensorFlow."""
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt

hvd.init()
r = hvd.rank()
value = tf.Variable([1.0])
model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(1,))])
model.compile(optimizer=hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), loss="mse")
state = hvd_keras.elastic.KerasState(model, epoch=0)
seen, resets = [], []
ERRORS = [HorovodInternalError("a collective"), HostsUpdatedInterrupt(False), tf.errors.UnknownError(None, None, "in HorovodAllreduce")]


@hvd.elastic.run
def train(state):
    seen.append((state.epoch, *weights(model), hvd.allreduce(C([1.0 + r]))))
    if len(seen) <= len(ERRORS):
        state.epoch += 10
        model.set_weights([np.full((1, 1), 5.0 + len(seen))])
        raise ERRORS[len(seen) - 1]
    return "done"


state.register_reset_callbacks([lambda: resets.append(hvd.size())])
ask("run", lambda: train(state))
ask("seen", lambda: seen)
ask("resets", lambda: resets)
