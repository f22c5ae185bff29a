hvd.init()
r = hvd.rank()


def small(value=1.0):
    layer = torch.nn.Linear(2, 1, bias=False)
    layer.weight.data.copy_(T([[value, value]]))
    return layer


def trained(model, optimizer, passes=1, steps=1):
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(passes):
            model(T([[1.0, 2.0 + step]]) * (r + 1)).sum().backward()
        optimizer.step()
    return model.weight.detach(), model.weight.grad


def plain():
    model = small()
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters())
    return trained(model, optimizer, steps=2)


def summed():
    model = small()
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    total = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters(), op=hvd.Sum)
    return trained(model, total, steps=2)


def accumulated():
    model = small()
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    twice = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters(), backward_passes_per_step=2)
    return trained(model, twice, passes=2)


def accumulated_thrice():
    model = small()
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    thrice = hvd.DistributedOptimizer(sgd, backward_passes_per_step=3)
    return trained(model, thrice, passes=3)


def incomplete():
    model = small()
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    early = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters(), backward_passes_per_step=2)
    return trained(model, early)


def predivided():
    model = small()
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    divided = hvd.DistributedOptimizer(sgd, gradient_predivide_factor=4.0)
    return trained(model, divided)


def grouped():
    model = small()
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    group = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters(), groups=1)
    return trained(model, group)


def compressed():
    model = small()
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    half = hvd.DistributedOptimizer(
        sgd, named_parameters=model.named_parameters(), compression=hvd.Compression.fp16
    )
    return trained(model, half)


def adam():
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    moments = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    return trained(model, moments, steps=3)


def unused_on_one_rank():
    model = small()
    momentum = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    partial = hvd.DistributedOptimizer(momentum, named_parameters=model.named_parameters())
    for step in range(2):
        partial.zero_grad()
        if r == step:
            model(T([[1.0, 2.0]])).sum().backward()
        partial.step()
    return model.weight.detach(), model.weight.grad


def unused_everywhere():
    model = small()
    decayed = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9, weight_decay=0.1)
    idle = hvd.DistributedOptimizer(decayed, named_parameters=model.named_parameters())
    idle.zero_grad()
    idle.step()
    return model.weight.detach(), model.weight.grad


ask("plain", plain)
ask("summed", summed)
ask("accumulated", accumulated)
ask("accumulated_thrice", accumulated_thrice)
ask("incomplete", incomplete)
ask("predivided", predivided)
ask("grouped", grouped)
ask("compressed", compressed)
ask("adam", adam)
ask("unused_on_one_rank", unused_on_one_rank)
ask("unused_everywhere", unused_everywhere)
