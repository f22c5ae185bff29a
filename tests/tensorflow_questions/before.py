one = C([1.0, 2.0])


def all_of_it(when):
    for name in ("size", "rank", "local_size", "local_rank", "cross_size", "cross_rank", "is_initialized", "mpi_threads_supported", "mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built", "nccl_built", "ddl_built", "ccl_built", "cuda_built", "rocm_built"):
        ask(f"{when}.{name}", lambda: getattr(hvd, name)())
    if when == "during":
        return
    ask(f"{when}.allreduce", lambda: hvd.allreduce(one))
    ask(f"{when}.allgather", lambda: hvd.allgather(one))
    ask(f"{when}.broadcast", lambda: hvd.broadcast(one, 0))
    ask(f"{when}.grouped", lambda: hvd.grouped_allgather([one]))
    ask(f"{when}.object", lambda: hvd.broadcast_object(1))
    ask(f"{when}.variables", lambda: hvd.broadcast_variables([tf.Variable(1.0)], root_rank=0))
    ask(f"{when}.add", lambda: hvd.add_process_set([0]))
    ask(f"{when}.timeline", lambda: hvd.start_timeline("x"))
    ask(f"{when}.optimizer", lambda: type(hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(1.0))).__name__)
    ask(f"{when}.tape", lambda: type(hvd.DistributedGradientTape(tf.GradientTape())).__name__)


all_of_it("before")
ask("before.shutdown", hvd.shutdown)
ask("init", hvd.init)
all_of_it("during")
ask("again", hvd.init)
ask("sum", lambda: hvd.allreduce(one * (hvd.rank() + 1), op=hvd.Sum))
ask("global", lambda: (str(hvd.global_process_set), hvd.global_process_set.size(), hvd.global_process_set.rank(), hvd.global_process_set.included()))
ask("comm", lambda: hvd.init(comm=object()))
ask("same", lambda: [hvd_keras.size(), hvd_keras.rank(), hvd_keras.is_initialized(), hvd_keras.local_rank()])
ask("timeline", lambda: hvd.start_timeline("x"))
