os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
alone = hvd.ProcessSet([1])
both = hvd.ProcessSet([0, 1])
ask("before", lambda: (str(alone), alone.size(), alone.rank()))
hvd.init(process_sets=[alone])
r, n = hvd.rank(), hvd.size()

ask("numbers", lambda: (str(alone), alone.size(), alone.included(), str(hvd.global_process_set)))
ask("rank", alone.rank)
ask("duplicate", lambda: hvd.add_process_set([1]))
ask("everyone", lambda: hvd.add_process_set(both))
zero = hvd.add_process_set([0])
ask("added", lambda: (str(zero), zero.size(), zero.included()))
for name, one in (("one", alone), ("zero", zero)):
    member = one.included()
    for kind, question in {
        "reduce": lambda: hvd.allreduce(C([1.0 + r]), process_set=one),
        "reduce.integers": lambda: hvd.allreduce(C([1 + r, -4]), process_set=one),
        "gather": lambda: hvd.allgather(C([1.0 + r]), process_set=one),
        "broadcast": lambda: hvd.broadcast(C([1.0 + r]), one.ranks[0], process_set=one),
        "broadcast.wrong": lambda: hvd.broadcast(C([1.0 + r]), 1 - one.ranks[0], process_set=one),
        "scatter": lambda: hvd.reducescatter(C([1.0 + r, 3.0]), process_set=one),
        "exchange": lambda: hvd.alltoall(C([1.0 + r]), splits=[1], process_set=one),
        "grouped": lambda: hvd.grouped_allreduce([C([1.0 + r]), C([2.0])], process_set=one),
        "slices": lambda: hvd.allreduce(tf.IndexedSlices(C([1.0 + r]), C([0]), C([2])), process_set=one),
    }.items():
        ask(f"{name}.{kind}", question)
    if member:
        ask(f"{name}.object", lambda: hvd.broadcast_object(("x", r), one.ranks[0], process_set=one))
        ask(f"{name}.objects", lambda: hvd.allgather_object(("x", r), process_set=one))
        value = tf.Variable([1.0 + r])
        ask(f"{name}.variables", lambda: (hvd.broadcast_variables([value], one.ranks[0], process_set=one), value))
    ask(f"{name}.ops", lambda: [hvd.size_op(one.process_set_id), hvd.process_set_included_op(one.process_set_id)])

    def tape():
        x = tf.Variable([2.0])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * (r + 1.0))
        return hvd.DistributedGradientTape(tape, process_set=one).gradient(loss, [x])

    ask(f"{name}.tape", tape)

    def fit():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(2,))])
        model.compile(hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), process_set=one), loss=lambda y, p: tf.reduce_sum(p))
        model.fit(np.array([[1.0, 2.0]]) * (r + 1), np.zeros((1, 1)), verbose=0)
        return weights(model)

    ask(f"{name}.fit", fit)

ask("not_registered", lambda: hvd.allreduce(C([1.0]), process_set=hvd.ProcessSet([0, 1])))
ask("remove", lambda: hvd.remove_process_set(zero))
ask("removed", lambda: (str(zero), zero.size()))
ask("removed.reduce", lambda: hvd.allreduce(C([1.0]), process_set=zero))
ask("remove.again", lambda: hvd.remove_process_set(zero))
ask("remove.global", lambda: hvd.remove_process_set(hvd.global_process_set))
ask("after", lambda: hvd.allreduce(C([1.0 + r])))
