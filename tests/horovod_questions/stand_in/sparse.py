from horovod.torch.mpi_ops import sparse_allreduce_async

hvd.init()
r = hvd.rank()


def trained(name, **options):
    table = torch.nn.Embedding(5, 1, sparse=True)
    torch.nn.init.ones_(table.weight)
    sgd = torch.optim.SGD(table.parameters(), lr=1.0)
    optimizer = hvd.DistributedOptimizer(sgd, named_parameters=[(name, table.weight)], **options)
    table(T([0, r + 1, r + 1])).sum().backward()
    optimizer.step()
    return table.weight.grad, table.weight.detach().flatten().tolist()


ask("default", lambda: trained("default"))
ask("dense", lambda: trained("dense", sparse_as_dense=True))
ask("sum", lambda: trained("sum", op=hvd.Sum))
ask("fp16", lambda: trained("fp16", compression=hvd.Compression.fp16))
ask("predivided", lambda: trained("predivided", gradient_predivide_factor=2.0))
ask("dense.fp16", lambda: trained("dense.fp16", sparse_as_dense=True, compression=hvd.Compression.fp16))
sparse = torch.sparse_coo_tensor(T([[0, r + 1]]), T([1.0 + r, 10.0]), (4,), check_invariants=False)
ask("handle", lambda: sparse_allreduce_async(sparse, "handle", hvd.Average)())
ask("handle.sum", lambda: sparse_allreduce_async(sparse, "handle.sum", hvd.Sum)())
ask("none", lambda: sparse_allreduce_async(torch.sparse_coo_tensor((4,), check_invariants=False), "none", hvd.Sum)())
