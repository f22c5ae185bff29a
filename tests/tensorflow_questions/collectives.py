hvd.init()
r, n = hvd.rank(), hvd.size()
OPS = {"average": hvd.Average, "sum": hvd.Sum, "min": hvd.Min, "max": hvd.Max, "product": hvd.Product}
TYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool", "complex64", "string")


def of(kind, values=(3, 4, 7)):
    if kind == "string":
        return C([str(value + r) for value in values])
    return tf.cast(C(values) + r, kind)


for kind in TYPES:
    for name, op in OPS.items():
        ask(f"reduce.{kind}.{name}", lambda: hvd.allreduce(of(kind), op=op))
    ask(f"gather.{kind}", lambda: hvd.allgather(of(kind)))
    ask(f"broadcast.{kind}", lambda: hvd.broadcast(of(kind), 1))
    ask(f"exchange.{kind}", lambda: hvd.alltoall(of(kind, range(2 * n))))
    ask(f"scatter.{kind}", lambda: hvd.reducescatter(of(kind), op=hvd.Sum))
    ask(f"scatter.average.{kind}", lambda: hvd.reducescatter(of(kind)))
    ask(f"grouped.{kind}", lambda: hvd.grouped_allreduce([of(kind), of(kind, (5,))]))
    ask(f"graph.{kind}", lambda: in_function(lambda: hvd.allreduce(of(kind))))
    ask(f"graph.gather.{kind}", lambda: in_function(lambda: hvd.allgather(of(kind))))

ask("negative", lambda: hvd.allreduce(C([3, 4, -7]) + r))
ask("average.argument", lambda: [hvd.allreduce(C([1.0 + r]), average=average) for average in (True, False)])
ask("average.both", lambda: hvd.allreduce(C([1.0 + r]), average=True, op=hvd.Sum))
ask("adasum", lambda: hvd.allreduce(C([1.0 + r]), op=hvd.Adasum))
ask("scalar", lambda: hvd.allreduce(C(1.0 + r)))
ask("float", lambda: hvd.allreduce(1.0 + r))
ask("list", lambda: hvd.allreduce([1.0 + r]))
ask("array", lambda: hvd.allreduce(np.array([1.0 + r])))
ask("variable", lambda: hvd.allreduce(tf.Variable([1.0 + r])))
ask("empty", lambda: hvd.allreduce(tf.zeros([0, 2])))
ask("scaled", lambda: hvd.allreduce(C([1.0, 2.0]) + r, op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0))
ask("scaled.average", lambda: hvd.allreduce(C([1.0, 2.0]) + r, prescale_factor=0.3, postscale_factor=0.7))
ask("scaled.int", lambda: hvd.allreduce(C([5, 7]) + r, op=hvd.Sum, prescale_factor=0.5, postscale_factor=1.5))
ask("scaled.half", lambda: hvd.allreduce(tf.cast(C([1.1, 2.3]) + r, tf.float16), prescale_factor=0.3, postscale_factor=0.7))
ask("fp16", lambda: hvd.allreduce(C([1.0001, 3.0003]) + r, compression=hvd.Compression.fp16))
ask("fp16.int", lambda: hvd.allreduce(C([1, 3]) + r, compression=hvd.Compression.fp16))
ask("fp16.double", lambda: hvd.allreduce(C([1.0001], tf.float64), compression=hvd.Compression.fp16))
ask("named", lambda: hvd.allreduce(C([1.0 + r]), name="some name"))
ask("scope", lambda: hvd.allreduce(C([1.0 + r]), name="a", ignore_name_scope=True))
ask("device", lambda: hvd.allreduce(C([1.0 + r]), device_dense="/cpu:0", device_sparse="/cpu:0"))


def slices(kind="float32", dense_shape=True):
    shape = C([4, 1], tf.int64) if dense_shape else None
    return tf.IndexedSlices(tf.cast(C([[1.0 + r], [10.0]]), kind), C([0, r + 1], tf.int64), shape)


ask("slices", lambda: hvd.allreduce(slices()))
ask("slices.sum", lambda: hvd.allreduce(slices(), op=hvd.Sum))
ask("slices.min", lambda: hvd.allreduce(slices(), op=hvd.Min))
ask("slices.adasum", lambda: hvd.allreduce(slices(), op=hvd.Adasum))
ask("slices.scaled", lambda: hvd.allreduce(slices(), prescale_factor=2.0))
ask("slices.int", lambda: hvd.allreduce(slices("int32")))
ask("slices.half", lambda: hvd.allreduce(slices("float16")))
ask("slices.no_shape", lambda: hvd.allreduce(slices(dense_shape=False)))
ask("slices.fp16", lambda: hvd.allreduce(slices(), compression=hvd.Compression.fp16))
ask("slices.graph", lambda: in_function(lambda: hvd.allreduce(slices())))

ask("gather", lambda: hvd.allgather(tf.fill([r + 1, 2], float(r))))
ask("gather.some_empty", lambda: hvd.allgather(tf.fill([r, 2], float(r))))
ask("gather.scalar", lambda: hvd.allgather(C(1.0 + r)))
ask("gather.list", lambda: hvd.allgather([1.0 + r]))
ask("gather.graph", lambda: in_function(lambda: hvd.allgather(tf.fill([r + 1, 2], float(r)))))
ask("broadcast.scalar", lambda: hvd.broadcast(C(1.0 + r), 1))
ask("broadcast.unknown", lambda: hvd.broadcast(C(1.0 + r), 7))
ask("broadcast.float", lambda: hvd.broadcast(1.0 + r, 0))
ask("broadcast.graph", lambda: in_function(lambda: hvd.broadcast(C([1.0 + r]), 1)))
ask("exchange", lambda: hvd.alltoall(tf.range(2 * n) + 100 * r))
ask("exchange.splits", lambda: hvd.alltoall(tf.range(4) + 100 * r, splits=C([1, 3] if r == 0 else [2, 2])))
ask("exchange.list", lambda: hvd.alltoall(tf.range(4) + 100 * r, splits=[r, 2]))
ask("exchange.rows", lambda: hvd.alltoall(tf.reshape(tf.range(4.0), [2, 2]) + r, splits=[0, 2]))
ask("exchange.uneven", lambda: hvd.alltoall(tf.range(2 * n + 1)))
ask("exchange.much", lambda: hvd.alltoall(tf.range(2), splits=[2, 2]))
ask("exchange.few", lambda: hvd.alltoall(tf.range(2), splits=[2]))
ask("exchange.long", lambda: hvd.alltoall(tf.range(2), splits=C([1, 1], tf.int64)))
ask("exchange.graph", lambda: in_function(lambda: hvd.alltoall(tf.range(4) + 100 * r, splits=C([1, 3] if r == 0 else [2, 2]))))
ask("scatter", lambda: hvd.reducescatter(tf.reshape(tf.range(6.0), [3, 2]) * (r + 1)))
ask("scatter.sum", lambda: hvd.reducescatter(tf.reshape(tf.range(6.0), [3, 2]) * (r + 1), op=hvd.Sum))
ask("scatter.min", lambda: hvd.reducescatter(tf.range(6.0), op=hvd.Min))
ask("scatter.scalar", lambda: hvd.reducescatter(C(1.0)))
ask("scatter.short", lambda: hvd.reducescatter(C([1.0 + r])))
ask("scatter.scaled", lambda: hvd.reducescatter(tf.range(4.0) + r, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25))
ask("scatter.fp16", lambda: hvd.reducescatter(tf.range(4.0) + r + 0.0001, compression=hvd.Compression.fp16))
ask("scatter.graph", lambda: in_function(lambda: hvd.reducescatter(tf.range(5.0) * (r + 1))))

ask("grouped", lambda: hvd.grouped_allreduce([C([1.0 + r]), C([2.0, 3.0]) * (r + 1)]))
ask("grouped.sum", lambda: hvd.grouped_allreduce([C([1.0 + r]), C(2.0)], op=hvd.Sum, name="group"))
ask("grouped.scaled", lambda: hvd.grouped_allreduce([C([1.0 + r]), C([2.0])], prescale_factor=0.5, postscale_factor=3.0))
ask("grouped.mixed", lambda: hvd.grouped_allreduce([C([1.0 + r]), C([2])]))
ask("grouped.none", lambda: hvd.grouped_allreduce([]))
ask("grouped.fp16", lambda: hvd.grouped_allreduce([C([1.0001 + r]), C([2.0])], compression=hvd.Compression.fp16))
ask("grouped.slices", lambda: hvd.grouped_allreduce([C([1.0 + r]), slices(), C([2.0])]))
ask("grouped.only_slices", lambda: hvd.grouped_allreduce([slices(), slices()], op=hvd.Sum))
ask("grouped.graph", lambda: in_function(lambda: hvd.grouped_allreduce([C([1.0 + r]), C([[2.0]])])))
ask("grouped.gather", lambda: hvd.grouped_allgather([C([1.0 + r]), tf.fill([r + 1, 2], 1.0)]))
ask("grouped.gather.graph", lambda: in_function(lambda: hvd.grouped_allgather([C([1.0 + r]), tf.fill([r + 1, 2], 1.0)])))
ask("grouped.scatter", lambda: hvd.grouped_reducescatter([tf.range(4.0) + r, tf.reshape(tf.range(6.0), [3, 2])]))
ask("grouped.scatter.sum", lambda: hvd.grouped_reducescatter([tf.range(4.0) + r, tf.range(3.0)], op=hvd.Sum))
ask("grouped.scatter.none", lambda: hvd.grouped_reducescatter([]))
ask("grouped.tuple", lambda: hvd.grouped_allreduce((C([1.0 + r]), C([2.0]))))

ask("size_op", lambda: [hvd.size_op(), hvd.rank_op(), hvd.local_size_op(), hvd.local_rank_op(), hvd.process_set_included_op()])
ask("size_op.unknown", lambda: hvd.size_op(7))
ask("size_op.graph", lambda: in_function(lambda: (hvd.size_op(), hvd.rank_op(), hvd.local_size_op(), hvd.local_rank_op(), hvd.process_set_included_op())))


def mixed_function():
    """A graph with collectives of several kinds, one of them in a loop, and a branch."""
    total = tf.zeros([2])
    for step in tf.range(3):
        total = hvd.allreduce(total + tf.cast(step, tf.float32) + r, op=hvd.Sum)
    if tf.reduce_sum(total) > 0:
        total = hvd.broadcast(total + r, 1)
    return total, hvd.allgather(total[: r + 1])


ask("graph", lambda: in_function(mixed_function))
ask("graph.shapes", lambda: in_function(lambda: [tf.constant(str(x.shape)) for x in (hvd.allreduce(tf.zeros([2, 3])), hvd.allgather(tf.zeros([2, 3])), hvd.broadcast(tf.zeros([2, 3]), 0), hvd.reducescatter(tf.zeros([2, 3])), hvd.alltoall(tf.zeros([2, 3])))]))


@tf.function
def reduced_twice(x):
    return hvd.allreduce(x, op=hvd.Sum), hvd.allreduce(x + 1)


ask("graph.retraced", lambda: [reduced_twice(C([1.0 + r] * length)) for length in (1, 2, 1)])
ask("graph.error", lambda: in_function(lambda: hvd.allgather(C(1.0))))
for name in ("is_homogeneous", "nccl_built", "gloo_enabled"):
    ask(name, getattr(hvd, name))
ask("power", lambda: [hvd.check_num_rank_power_of_2(k) for k in range(5)])
ask("split_list", lambda: hvd.split_list([1, 2, 3, 4, 5], 2))
ask("keras.allreduce", lambda: [hvd_keras.allreduce(float(r + 1)), hvd_keras.allreduce([r + 1, 4], op=hvd.Sum), hvd_keras.allreduce(1.0 + r, average=False)])
ask("keras.scaled", lambda: hvd_keras.allreduce([1.0 + r], prescale_factor=2.0, postscale_factor=3.0, name="x"))
ask("keras.others", lambda: [hvd_keras.allgather([r + 1.0]), hvd_keras.broadcast([r + 1.0], 1), hvd_keras.reducescatter([1.0, 2.0 + r, 3.0])])
ask("keras.broadcast_global", lambda: hvd_keras.broadcast_global_variables(0))
ask("broadcast_global", lambda: hvd.broadcast_global_variables(0))
