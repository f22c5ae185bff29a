hvd.init()
r, n = hvd.rank(), hvd.size()


def value(i):
    return torch.tensor([float(10 * (r + 1) + i)])


QUESTIONS = {
    "average": lambda i: hvd.allreduce(value(i), name=f"average{i}"),
    "sum": lambda i: hvd.allreduce(value(i), op=hvd.Sum, name=f"sum{i}"),
    "min": lambda i: hvd.allreduce(value(i), op=hvd.Min, name=f"min{i}"),
    "product": lambda i: hvd.allreduce(value(i), op=hvd.Product, name=f"product{i}"),
    "integers": lambda i: hvd.allreduce(value(i).long(), name=f"integers{i}"),
    "half": lambda i: hvd.allreduce(value(i).half(), name=f"half{i}"),
    "scaled": lambda i: hvd.allreduce(value(i), prescale_factor=0.5, postscale_factor=3.0, name=f"scaled{i}"),
    "in_place": lambda i: hvd.allreduce_(value(i), name=f"in_place{i}"),
    "group": lambda i: hvd.grouped_allreduce([value(i), torch.tensor([i, r])], name=f"group{i}"),
    "gather": lambda i: hvd.allgather(value(i), name=f"gather{i}"),
    "broadcast": lambda i: hvd.broadcast(value(i), 1, name=f"broadcast{i}"),
    "exchange": lambda i: hvd.alltoall(torch.ones(n) * r, name=f"exchange{i}"),
    "scatter": lambda i: hvd.reducescatter(torch.arange(6.0), op=hvd.Sum, name=f"scatter{i}"),
}
# Rank r asks r + 1 times: the last rank asks the last time when all others have joined.
for kind, question in QUESTIONS.items():
    for i in range(r + 1):
        ask(f"{kind}.{i}", lambda: question(i))
    ask(f"{kind}.last", lambda: hvd.join())

layer = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.ones_(layer.weight)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), named_parameters=layer.named_parameters())
for i in range(r + 1):
    optimizer.zero_grad()
    layer(torch.tensor([[2.0 * (r + 1)]])).sum().backward()
    optimizer.step()
    ask(f"trained.{i}", lambda: layer.weight.item())
ask("trained.last", lambda: hvd.join())
ask("trained", lambda: layer.weight.item())
ask("together", lambda: hvd.allgather(torch.tensor([r]), name="together"))
