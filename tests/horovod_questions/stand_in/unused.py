hvd.init()
r = hvd.rank()


class Heads(torch.nn.Module):
    """``b`` is used on rank 0 only, ``c`` nowhere, ``f`` is frozen."""

    def __init__(self):
        super().__init__()
        for name in "abcf":
            setattr(self, name, torch.nn.Parameter(T([1.0]), requires_grad=name != "f"))

    def forward(self, x):
        return self.a * x + (self.b * x if r == 0 else 0)


def gradients(model):
    return {name: None if p.grad is None else p.grad.tolist() for name, p in model.named_parameters()}


def values(model):
    return {name: p.tolist() for name, p in model.named_parameters()}


for kind, make in {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=1.0),
    "decayed": lambda ps: torch.optim.SGD(ps, lr=1.0, momentum=0.9, weight_decay=0.1),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.1),
}.items():
    model = Heads()
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), named_parameters=model.named_parameters())
    model(T([2.0]) * (r + 1)).sum().backward()
    optimizer.step()
    ask(f"{kind}.gradients", lambda: gradients(model))
    ask(f"{kind}.values", lambda: values(model))
    ask(f"{kind}.state", lambda: {name: sorted(optimizer.state[p]) if p in optimizer.state else None for name, p in model.named_parameters()})
    optimizer.zero_grad()
    ask(f"{kind}.cleared", lambda: gradients(model))
    optimizer.step()
    ask(f"{kind}.no_backward", lambda: gradients(model))
    ask(f"{kind}.no_backward.values", lambda: values(model))

model = Heads()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters())
model.f.requires_grad_(True)
(model.f * (r + 1.0)).sum().backward()
optimizer.step()
ask("unfrozen", lambda: (model.f.grad, model.f.detach()))


def added():
    model = Heads()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([model.a], lr=1.0), named_parameters=[("a", model.a)])
    optimizer.add_param_group({"params": [model.b]})
    (model.b * (r + 1.0) + model.a * (r + 1.0)).sum().backward()
    optimizer.step()
    return model.a.detach(), model.b.detach(), optimizer.param_groups[1]["lr"]


ask("added", added)
ask("groups", lambda: [name for name in sorted(values(model))])
for groups in (1, 2, [["a"], ["b", "c"]]):
    model = Heads()
    grouped = [[getattr(model, name) for name in names] for names in groups] if isinstance(groups, list) else groups
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters(), groups=grouped)
    (model.a * (r + 1.0) + model.b + model.c).sum().backward()
    optimizer.step()
    ask(f"groups.{groups}".replace(" ", ""), lambda: (gradients(model), values(model)))
