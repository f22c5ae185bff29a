import time

hvd.init()
r, n = hvd.rank(), hvd.size()


def later(question):
    """What rank 0 asks first, as errors name the first rank first."""
    time.sleep(0.1 * r)
    return question()


def twice(start):
    """Rank 0 asks under a name that it has asked under already; the others ask once, and only then."""
    if r:
        time.sleep(0.3)
        return hvd.synchronize(start())
    handle = start()
    try:
        start()
    finally:
        answer = hvd.synchronize(handle)
    return answer


ones = torch.ones
ask("shape", lambda: later(lambda: hvd.allreduce(ones(2 + (r > 0)), name="shape")))
ask("dimensions", lambda: later(lambda: hvd.allreduce(ones(2) if r == 0 else ones(2, 1), name="dimensions")))
ask("dtype", lambda: later(lambda: hvd.allreduce(ones(2, dtype=torch.float64 if r else torch.float32), name="dtype")))
ask("reduction", lambda: later(lambda: hvd.allreduce(ones(2), op=hvd.Max if r else hvd.Sum, name="reduction")))
ask("average", lambda: later(lambda: hvd.allreduce(ones(2) * (r + 1), op=hvd.Average if r else hvd.Sum, name="average")))
ask("factors", lambda: later(lambda: hvd.allreduce(ones(2), prescale_factor=1.0 + r, postscale_factor=0.5, name="factors")))
if n == 2:
    ask("adasum", lambda: later(lambda: hvd.allreduce(ones(2), op=hvd.Adasum if r else hvd.Sum, name="adasum")))
ask("in_a_group", lambda: later(lambda: hvd.grouped_allreduce([ones(1), ones(2 + (r > 0))], name="group")))
ask("group_size", lambda: hvd.allreduce(ones(1), name="after_group"))
ask("root", lambda: later(lambda: hvd.broadcast(ones(2), min(r, 1), name="root")))
ask("broadcast.shape", lambda: later(lambda: hvd.broadcast(ones(2 + (r > 0)), 0, name="sent")))
ask("gather.tail", lambda: later(lambda: hvd.allgather(ones(2, 2 + (r > 0)), name="tail")))
ask("gather.dimensions", lambda: later(lambda: hvd.allgather(ones(2) if r == 0 else ones(2, 1), name="gathered")))
ask("gather.dtype", lambda: later(lambda: hvd.allgather(ones(2).int() if r == 0 else ones(2), name="type")))
ask("exchange.tail", lambda: later(lambda: hvd.alltoall(ones(n, 2 + (r > 0)), name="tails")))
ask("exchange.splits", lambda: hvd.alltoall(ones(n), splits=torch.ones(n, 1, dtype=torch.int32), name="splits"))
ask("scatter.shape", lambda: later(lambda: hvd.reducescatter(ones(2 + (r > 0)), name="rows")))
ask("scatter.op", lambda: hvd.reducescatter(ones(2), op=hvd.Min))
ask("scatter.adasum", lambda: hvd.reducescatter(ones(2), op=hvd.Adasum))
ask("goes_on", lambda: hvd.allreduce(ones(2) * r, name="shape"))

ask("both", lambda: hvd.allreduce(ones(2), average=True, op=hvd.Sum))
ask("no_root", lambda: hvd.broadcast(ones(2)))
ask("negative_root", lambda: hvd.broadcast(ones(2), -1))
ask("complex", lambda: hvd.allreduce(ones(2).to(torch.complex64)))
ask("complex.gather", lambda: hvd.allgather(ones(2).to(torch.complex64)))
ask("sparse", lambda: hvd.allreduce(torch.sparse_coo_tensor([[0]], [1.0], (4,), check_invariants=False)))
for name in ("uint8", "int8", "int16", "bool", "bfloat16", "float16", "float64"):
    x = torch.tensor([1, r]).to(getattr(torch, name))
    ask(f"gather.{name}", lambda: hvd.allgather(x))
    ask(f"broadcast.{name}", lambda: hvd.broadcast(x, 0))
    ask(f"exchange.{name}", lambda: hvd.alltoall(x, splits=[1] + [0] * (n - 1)))
    ask(f"scatter.{name}", lambda: hvd.reducescatter(x))
ask("int16.sum", lambda: hvd.allreduce(torch.tensor([1], dtype=torch.int16), op=hvd.Sum))
transposed = (torch.arange(6.0).reshape(2, 3) + r).t()
ask("transposed.in_place", lambda: hvd.allreduce_(transposed))
ask("transposed.second", lambda: hvd.grouped_allreduce([ones(2) + r, transposed]))
ask("transposed.exchange", lambda: hvd.alltoall(transposed, splits=[3] + [0] * (n - 1)))
ask("transposed.scatter", lambda: hvd.reducescatter(transposed))
ask("adasum.parallel", lambda: hvd.allreduce(ones(2), op=hvd.Adasum))
ask("float", lambda: hvd.allreduce(1.0))
ask("list", lambda: hvd.allgather([1.0]))
ask("short_splits", lambda: hvd.alltoall(ones(4), splits=[4] + [0] * (n - 2)))
ask("fp16.compress", lambda: hvd.Compression.fp16.compress(torch.tensor([1.0001])))
ask("warned", lambda: told(lambda: hvd.allreduce(ones(1), average=True)))
ask("warned.gather", lambda: told(lambda: gradient(lambda x: hvd.allgather(x))))

# From here on the ranks have asked for unequally many, so that everything needs a name.
big = torch.arange(4.0) + r
ask("twice.reduce", lambda: twice(lambda: hvd.allreduce_async(big, name="twice")))
ask("twice.in_place", lambda: twice(lambda: hvd.allreduce_async_(big.clone(), name="twice")))
ask("twice.gather", lambda: twice(lambda: hvd.allgather_async(big, name="twice")))
ask("twice.broadcast", lambda: twice(lambda: hvd.broadcast_async(big, 0, name="twice")))
ask("twice.exchange", lambda: twice(lambda: hvd.alltoall_async(big, splits=[1] * n, name="twice")))
ask("twice.scatter", lambda: twice(lambda: hvd.reducescatter_async(big, name="twice")))
ask("twice.group", lambda: twice(lambda: hvd.grouped_allreduce_async([big, big + 1], name="twice")))
ask("twice.after", lambda: hvd.allreduce(big, name="twice"))
