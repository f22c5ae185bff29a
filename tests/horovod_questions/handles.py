hvd.init()
r, n = hvd.rank(), hvd.size()


def waited(handle):
    return hvd.synchronize(handle)


a = torch.tensor([1.0, 2.0]) + r
ask("reduce", lambda: waited(hvd.allreduce_async(a)))
ask("reduce.input", lambda: a)
ask("reduce.sum", lambda: waited(hvd.allreduce_async(a, op=hvd.Sum)))
ask("reduce.integers", lambda: waited(hvd.allreduce_async(torch.tensor([3 + r, -4 - r]))))
ask("reduce.scaled", lambda: waited(hvd.allreduce_async(a, op=hvd.Sum, prescale_factor=0.3, postscale_factor=0.7)))
for way, op in {"default": None, "average": hvd.Average, "max": hvd.Max}.items():
    ask(f"reduce.chosen.{way}", lambda: waited(hvd.allreduce_async(a, op=op)))
ask("reduce.graph", lambda: waited(hvd.allreduce_async(torch.ones(1, requires_grad=True) * 2)).requires_grad)
handle = hvd.allreduce_async_(a)
out = hvd.synchronize(handle)
ask("in_place", lambda: (a, out is a))
handle = hvd.allreduce_async_(a.add_(r), op=hvd.Sum)
while not hvd.poll(handle):
    pass
ask("polled.sum", lambda: a)
handle = hvd.allreduce_async_(a.mul_(r + 1))
while not hvd.poll(handle):
    pass
ask("polled", lambda: a)
hvd.synchronize(handle)
ask("polled.then_waited", lambda: a)
ask("poll", lambda: type(hvd.poll(hvd.allreduce_async(torch.ones(1)))).__name__)
handle = hvd.allreduce_async(torch.ones(1))
hvd.synchronize(handle)
ask("waited_twice", lambda: hvd.synchronize(handle))

handles = {name: (hvd.allreduce_async(torch.full((2,), float(r + k)), name=name), k) for k, name in enumerate("abc")}
ask("in_dict", lambda: [hvd.synchronize(handle) * k for handle, k in handles.values()])
ask("mapped", lambda: list(map(hvd.synchronize, [hvd.allreduce_async(torch.tensor([k + r])) for k in range(3)])))

ask("gather", lambda: waited(hvd.allgather_async(torch.full((r + 1,), 1.0 + r))))
ask("broadcast", lambda: waited(hvd.broadcast_async(torch.tensor([1.0 + r]), 1)))
a = torch.tensor([1.0 + r])
out = hvd.synchronize(hvd.broadcast_async_(a, 1))
ask("broadcast.in_place", lambda: (a, out is a))
ask("exchange", lambda: waited(hvd.alltoall_async(torch.arange(2.0 * n) + 10 * r)))
ask("exchange.splits", lambda: waited(hvd.alltoall_async(torch.arange(2.0 * n) + 10 * r, splits=[2] * n)))
ask("scatter", lambda: waited(hvd.reducescatter_async(torch.arange(2.0 * n + 1) + 10 * r)))
ask("scatter.scaled", lambda: waited(hvd.reducescatter_async(torch.arange(2 * n) + r, op=hvd.Sum, postscale_factor=0.5)))
ask("grouped", lambda: waited(hvd.grouped_allreduce_async([torch.tensor([1.0 + r]), torch.tensor([3])])))
a = [torch.tensor([1.0 + r]), torch.tensor([3.0])]
out = hvd.synchronize(hvd.grouped_allreduce_async_(a))
ask("grouped.in_place", lambda: (a, out, out[0] is a[0]))
ask("grouped.gather", lambda: waited(hvd.grouped_allgather_async([torch.tensor([1.0 + r]), torch.tensor([3.0])])))
ask("grouped.scatter", lambda: waited(hvd.grouped_reducescatter_async([torch.tensor([1.0 + r] * n), torch.tensor([3.0] * n)])))
sparse = torch.sparse_coo_tensor([[r, 2]], [1.0 + r, 10.0], (4,), check_invariants=False)
ask("sparse", lambda: hvd.sparse_allreduce_async(sparse, "mean", hvd.Average)())
ask("sparse.sum", lambda: hvd.sparse_allreduce_async(sparse, "sum", hvd.Sum)())
for way, op in {"average": hvd.Average, "sum": hvd.Sum}.items():
    ask(f"sparse.chosen.{way}", lambda: hvd.sparse_allreduce_async(sparse, way, op=op)())
