"""Sessions of TensorFlow 1."""
hvd.init()
r = hvd.rank()
v1 = tf.compat.v1


def in_session(build):
    with tf.Graph().as_default():
        found = build()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(v1.local_variables_initializer())
            return found(session)


def reduced():
    x = v1.placeholder(tf.float32, [2])
    total, rows = hvd.allreduce(x, op=hvd.Sum), hvd.allgather(x)
    return lambda session: [session.run([total, rows], {x: [1.0 + r, k]}) for k in range(2)]


def broadcast():
    value = v1.get_variable("value", initializer=[1.0 + r])
    send = hvd.broadcast_global_variables(0)
    return lambda session: [session.run(value), session.run(send), session.run(value)]


def trained(**options):
    value = v1.get_variable("value", initializer=[1.0, 2.0])
    other = v1.get_variable("other", initializer=[3.0])
    loss = tf.reduce_sum(value * value * (r + 1.0)) + tf.reduce_sum(other) * (r + 1.0)
    optimizer = hvd.DistributedOptimizer(v1.train.MomentumOptimizer(0.1, 0.9), **options)
    step = optimizer.minimize(loss)

    def run(session):
        found = []
        for _ in range(4):
            session.run(step)
            found.append(session.run([value, other]))
        return found

    return run


def hooked():
    value = v1.get_variable("value", initializer=[1.0 + r])
    hook = hvd.BroadcastGlobalVariablesHook(0)

    def run(_):
        with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
            return session.run(value)

    return run


ask("reduced", lambda: in_session(reduced))
ask("broadcast", lambda: in_session(broadcast))
ask("trained", lambda: in_session(trained))
ask("trained.sum", lambda: in_session(lambda: trained(op=hvd.Sum)))
ask("trained.passes", lambda: in_session(lambda: trained(backward_passes_per_step=2)))
ask("trained.passes.average", lambda: in_session(lambda: trained(backward_passes_per_step=2, average_aggregated_gradients=True)))
ask("hooked", lambda: in_session(hooked))
