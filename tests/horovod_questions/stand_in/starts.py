import time

ASKED = "size rank local_rank local_size cross_rank cross_size is_homogeneous is_initialized mpi_threads_supported".split()
ASKED += [f"{name}_built" for name in ("gloo", "mpi", "nccl", "cuda", "rocm", "ccl", "ddl")] + ["gloo_enabled", "mpi_enabled"]
COLLECTIVES = {
    "allreduce": lambda: hvd.allreduce(torch.ones(2), name="early"),
    "allreduce_": lambda: hvd.allreduce_(torch.ones(2)),
    "grouped_allreduce": lambda: hvd.grouped_allreduce([torch.ones(2)]),
    "allgather": lambda: hvd.allgather(torch.ones(2)),
    "broadcast": lambda: hvd.broadcast(torch.ones(2), 0),
    "alltoall": lambda: hvd.alltoall(torch.ones(2), splits=[1, 1]),
    "reducescatter": lambda: hvd.reducescatter(torch.ones(2)),
    "barrier": lambda: hvd.barrier(),
    "join": lambda: hvd.join(),
    "broadcast_object": lambda: hvd.broadcast_object(1),
    "allgather_object": lambda: hvd.allgather_object(1),
    "optimizer": lambda: hvd.DistributedOptimizer(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)),
    "sampler": lambda: hvd.elastic.ElasticSampler(range(3)),
    "timeline": lambda: hvd.start_timeline("timeline.json"),
}


def ask_all(when):
    for name in ASKED:
        ask(f"{when}.{name}", lambda: getattr(hvd, name)())


def ask_too_early(when):
    ask_all(when)
    for name, collective in COLLECTIVES.items():
        ask(f"{when}.{name}", collective)
    ask(f"{when}.shutdown", lambda: hvd.shutdown())


pair = hvd.ProcessSet([1, 0])
ask("set", lambda: (pair.process_set_id, pair.ranks, pair.size(), pair.rank()))
ask("set.included", lambda: pair.included())
ask_too_early("before")
ask("init", lambda: hvd.init())
ask_all("after")
ask("after.timeline", lambda: hvd.start_timeline("timeline.json"))
ask("after.allreduce", lambda: hvd.allreduce(torch.tensor([1.0 + hvd.rank()])))
ask("after.unknown_handle", lambda: hvd.synchronize(12345))
ask("after.poll_unknown_handle", lambda: hvd.poll(12345))
ask("again", lambda: hvd.init())
ask("again.allreduce", lambda: hvd.allreduce(torch.tensor([1.0 + hvd.rank()])))
ask("mpi_communicator", lambda: hvd.init(comm=object()))
ask("shutdown", lambda: hvd.shutdown())
ask_too_early("ended")
time.sleep(1)  # Horovod aborts if a rank starts again while another one still ends
ask("restarted", lambda: hvd.init())
ask_all("restarted")
ask("restarted.allreduce", lambda: hvd.allreduce(torch.tensor([1.0 + hvd.rank()])))
