hvd.init()
r, n = hvd.rank(), hvd.size()


def numbers(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


everyone = [numbers(10 + k, 1000) for k in range(n)]
total = sum(everyone[1:], everyone[0])
average = hvd.allreduce(everyone[r])
summed = hvd.allreduce(everyone[r], op=hvd.Sum)
if n == 2:
    ask("average.of_sum", lambda: torch.equal(average, total / n))
    ask("average.by_factor", lambda: torch.equal(average, total * (1.0 / n)))
    ask("average.stacked", lambda: torch.equal(average, torch.stack(everyone).mean(0)))
    ask("sum", lambda: torch.equal(summed, total))
ask("average.close", lambda: torch.allclose(average, total / n, rtol=1e-6, atol=1e-6))
ask("sum.close", lambda: torch.allclose(summed, total, rtol=1e-6, atol=1e-6))
gathered = hvd.allgather(summed.unsqueeze(0))
ask("sum.same_everywhere", lambda: all(torch.equal(gathered[0], one) for one in gathered))


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 3))


def loss(model, rank, step):
    labels = torch.randint(0, 3, (8,), generator=torch.Generator().manual_seed(500 + 100 * rank + step))
    return torch.nn.functional.cross_entropy(model(numbers(100 * rank + step, 8, 20)), labels)


def by_hand(make):
    """Five steps with the mean of all ranks' gradients, each computed here."""
    model = net()
    optimizer = make(model.parameters())
    for step in range(5):
        every = []
        for rank in range(n):
            optimizer.zero_grad()
            loss(model, rank, step).backward()
            every.append([p.grad.clone() for p in model.parameters()])
        for p, gradients in zip(model.parameters(), zip(*every)):
            p.grad = sum(gradients[1:], gradients[0]) / n
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def by_horovod(make, **options):
    model = net()
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), named_parameters=model.named_parameters(), **options)
    for step in range(5):
        optimizer.zero_grad()
        loss(model, r, step).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


for kind, make in {
    "momentum": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=0.01),
}.items():
    expected = by_hand(make)
    for way, options in {
        "plain": {},
        "predivided": {"gradient_predivide_factor": float(n)},
        "fp16": {"compression": hvd.Compression.fp16},
        "groups": {"groups": 2},
    }.items():
        weights = by_horovod(make, **options)
        if n == 2:
            ask(f"{kind}.{way}.equal", lambda: torch.equal(weights, expected))
        close = 1e-3 if way == "fp16" else 1e-6
        ask(f"{kind}.{way}.close", lambda: torch.allclose(weights, expected, rtol=close, atol=close))
        same = hvd.allgather(weights.unsqueeze(0))
        ask(f"{kind}.{way}.same_everywhere", lambda: all(torch.equal(same[0], one) for one in same))

norm = torch.nn.BatchNorm1d(3)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(norm.parameters(), lr=0.1), named_parameters=norm.named_parameters())
norm(torch.arange(12.0).reshape(4, 3) * (r + 1)).sum().backward()
optimizer.step()
ask("batch_norm", lambda: (norm.running_mean, norm.running_var, norm.weight.detach()))
