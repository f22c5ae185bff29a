hvd.init()
r = hvd.rank()
model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.BatchNorm1d(1))


def fill():
    for p in model.parameters():
        torch.nn.init.constant_(p, r + 1.0)
    model[1].running_mean.fill_(r + 10.0)
    model[1].num_batches_tracked.fill_(r + 5)


def values():
    return [value.flatten().tolist() for value in model.state_dict().values()]


for kind, params, root in (
    ("state_dict", lambda: model.state_dict(), 1),
    ("list", lambda: list(model.named_parameters()), 0),
    ("generator", lambda: model.named_parameters(), 0),
    ("tensors", lambda: [p.data for p in model.parameters()], 0),
    ("none", lambda: None, 0),
    ("no_such_root", lambda: model.state_dict(), 9),
):
    fill()
    ask(f"parameters.{kind}", lambda: hvd.broadcast_parameters(params(), root_rank=root))
    ask(f"parameters.{kind}.values", values)
ask("parameters.no_root", lambda: hvd.broadcast_parameters(model.state_dict()))


def optimizer_state(kind, make, used=(), wraps=False):
    """Broadcast the state of an optimizer with a learning rate of this rank that has taken this rank's steps."""
    layer = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(layer.weight)
    optimizer = make(layer.parameters(), 0.1 * (r + 1))
    if wraps:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=layer.named_parameters())
    for _ in range(used[r] if used else 0):
        optimizer.zero_grad()
        layer(T([[1.0, 2.0]]) * (r + 1)).sum().backward()
        optimizer.step()
    ask(f"{kind}", lambda: hvd.broadcast_optimizer_state(optimizer, root_rank=0))
    ask(f"{kind}.weight", lambda: (layer.weight.detach(), layer.weight.grad))
    ask(f"{kind}.options", lambda: {name: value for name, value in optimizer.param_groups[0].items() if name != "params"})
    ask(f"{kind}.state", lambda: {name: show(value) for name, value in optimizer.state_dict()["state"].get(0, {}).items()})
    ask(f"{kind}.in_place", lambda: sorted(optimizer.state[layer.weight]))


def sgd(params, lr, **options):
    return torch.optim.SGD(params, lr=lr, **options)


optimizer_state("adam", torch.optim.Adam)
optimizer_state("adam.wrapped", torch.optim.Adam, wraps=True)
optimizer_state("adam.used", torch.optim.Adam, (1, 2, 3))
optimizer_state("adam.used_on_0", torch.optim.Adam, (2, 0, 0))
optimizer_state("adamw", lambda params, lr: torch.optim.AdamW(params, lr, weight_decay=0.5))
optimizer_state("sgd", sgd)
optimizer_state("sgd.wrapped", sgd, wraps=True)
optimizer_state("momentum", lambda params, lr: sgd(params, lr, momentum=0.9))
optimizer_state("momentum.decayed", lambda params, lr: sgd(params, lr, momentum=0.9, weight_decay=0.5))
optimizer_state("momentum.used", lambda params, lr: sgd(params, lr, momentum=0.9 - 0.1 * r, nesterov=True), (2, 1, 1))
optimizer_state("rmsprop", torch.optim.RMSprop)
optimizer_state("adagrad", torch.optim.Adagrad, (1, 0, 2))
optimizer_state("lbfgs", torch.optim.LBFGS)


def two_groups():
    layers = [torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)]
    groups = [{"params": layers[0].parameters(), "lr": 0.1 + r}, {"params": layers[1].parameters(), "weight_decay": 0.2 + r}]
    optimizer = torch.optim.Adam(groups, lr=0.3 + r, betas=(0.5 + 0.1 * r, 0.9))
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    return [[group[name] for name in ("lr", "weight_decay", "betas")] for group in optimizer.param_groups]


ask("two_groups", two_groups)
