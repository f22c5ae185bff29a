import time

import horovod.torch.optimizer

hvd.init()
r, n = hvd.rank(), hvd.size()
DATA = T([[1.0, 2.0]]) * (r + 1)


def layer():
    made = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(made.weight)
    return made


def wrap(model, name, **options):
    """An optimizer whose names nobody else uses, so that what one question leaves under way harms no other."""
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    named = [(f"{name}.{key}", p) for key, p in model.named_parameters()]
    return hvd.DistributedOptimizer(sgd, named_parameters=named, **options)


def trained(name, steps=1, backwards=1, **options):
    model = layer()
    optimizer = wrap(model, name, **options)
    try:
        for _ in range(steps):
            optimizer.zero_grad()
            for _ in range(backwards):
                model(DATA).sum().backward()
            optimizer.step()
    except AssertionError:
        optimizer.synchronize()
        raise
    return model.weight.detach(), model.weight.grad


for name, options in {
    "average": {},
    "sum": {"op": hvd.Sum},
    "min": {"op": hvd.Min},
    "max": {"op": hvd.Max},
    "product": {"op": hvd.Product},
    "two_steps": {"steps": 2},
    "passes.2": {"backwards": 2, "backward_passes_per_step": 2},
    "passes.2.sum": {"backwards": 2, "backward_passes_per_step": 2, "op": hvd.Sum},
    "passes.2.of_which_1": {"backward_passes_per_step": 2},
    "passes.3": {"backwards": 3, "backward_passes_per_step": 3},
    "passes.1.but_2": {"backwards": 2},
    "passes.0": {"backward_passes_per_step": 0},
    "predivided.2": {"gradient_predivide_factor": 2.0},
    "predivided.4": {"gradient_predivide_factor": 4.0},
    "predivided.sum": {"gradient_predivide_factor": 2.0, "op": hvd.Sum},
    "fp16": {"compression": hvd.Compression.fp16},
    "fp16.groups": {"compression": hvd.Compression.fp16, "groups": 1},
    "groups.1": {"groups": 1},
    "groups.0": {"groups": 0},
    "groups.of_numbers": {"groups": [[1]]},
    "num_groups": {"num_groups": 1},
    "adasum": {"op": hvd.Adasum},
}.items():
    ask(name, lambda: trained(name, **options))
ask("num_groups.warned", lambda: told(lambda: trained("num_groups.warned", num_groups=1))[1])


def named(names, groups=None):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 1, bias=False))
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    made = hvd.DistributedOptimizer(sgd, named_parameters=names(model), groups=groups and groups(model))
    return sorted(made._parameter_names.values())


def nameless_ids(question):
    """Errors without the addresses of objects."""
    try:
        return question()
    except ValueError as error:
        raise ValueError(str(error).partition("Python object ids")[0]) from error


ask("named", lambda: named(lambda model: model.named_parameters()))
ask("named.not", lambda: named(lambda model: None))
ask("named.list", lambda: named(lambda model: list(model.named_parameters())))
ask("named.some", lambda: nameless_ids(lambda: named(lambda model: model[0].named_parameters())))
ask("named.twice", lambda: named(lambda model: [("a", p) for p in model.parameters()]))
ask("named.parameters", lambda: named(lambda model: model.parameters()))
ask("named.others", lambda: nameless_ids(lambda: named(lambda model: layer().named_parameters())))
ask("groups.twice", lambda: named(lambda model: model.named_parameters(), lambda model: [[model[0].weight], [model[0].weight]]))
ask("groups.some", lambda: named(lambda model: model.named_parameters(), lambda model: [[model[0].weight]]))


def wire(name, data=DATA, **options):
    """The reductions that the optimizer asks for."""
    seen = []
    real = horovod.torch.optimizer.allreduce_async_

    def watched(tensor, *args, **kwargs):
        seen.append((str(tensor.dtype), *(kwargs.get(one) for one in ("name", "op", "prescale_factor", "postscale_factor"))))
        return real(tensor, *args, **kwargs)

    horovod.torch.optimizer.allreduce_async_ = watched
    try:
        model = layer()
        optimizer = wrap(model, name, **options)
        model(data).sum().backward()
        optimizer.step()
    finally:
        horovod.torch.optimizer.allreduce_async_ = real
    return seen, model.weight.grad


ask("wire", lambda: wire("wire"))
ask("wire.fp16", lambda: wire("wire.fp16", DATA * 0 + T([[1.0001, 3.0003]]), compression=hvd.Compression.fp16))
ask("wire.predivided", lambda: wire("wire.predivided", gradient_predivide_factor=4.0))
ask("wire.sum", lambda: wire("wire.sum", op=hvd.Sum))

model = layer()
base = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
optimizer = hvd.DistributedOptimizer(base, named_parameters=model.named_parameters())
ask("type", lambda: (type(optimizer).__name__, type(optimizer).__module__, isinstance(optimizer, torch.optim.SGD)))
ask("type.same", lambda: (optimizer is base, optimizer.param_groups is base.param_groups, optimizer.param_groups[0] is base.param_groups[0]))
ask("options", lambda: {name: value for name, value in optimizer.param_groups[0].items() if name != "params"})
ask("defaults", lambda: optimizer.defaults)
ask("state_dict", lambda: sorted(optimizer.state_dict()))
ask("scheduled", lambda: torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1).get_last_lr())
ask("zero_grad.argument", lambda: optimizer.zero_grad(set_to_none=True))
ask("step.returns", lambda: optimizer.step())
model(DATA).sum().backward()
gradient_before = model.weight.grad
address_before = gradient_before.data_ptr()
optimizer.step()
ask("gradient.same", lambda: (model.weight.grad is gradient_before, model.weight.grad.data_ptr() == address_before))
ask("momentum", lambda: (model.weight.detach(), optimizer.state[model.weight]["momentum_buffer"]))


def loaded():
    """The state of another optimizer."""
    other = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    other.load_state_dict(optimizer.state_dict())
    optimizer.load_state_dict(other.state_dict())
    optimizer.zero_grad()
    model(DATA).sum().backward()
    optimizer.step()
    return model.weight.detach(), optimizer.param_groups[0]["lr"]


ask("loaded", loaded)


def more_passes():
    model = layer()
    optimizer = wrap(model, "more_passes")
    optimizer.set_backward_passes_per_step(2)
    for _ in range(2):
        model(DATA).sum().backward()
    optimizer.step()
    return model.weight.detach()


ask("more_passes", more_passes)


def clipped(name, skips):
    model = layer()
    optimizer = wrap(model, name)
    model(DATA).sum().backward()
    optimizer.synchronize()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    gradient = model.weight.grad.clone()
    if skips:
        with optimizer.skip_synchronize():
            optimizer.step()
    else:
        optimizer.step()
    return norm, gradient, model.weight.detach(), model.weight.grad


ask("clipped", lambda: clipped("clipped", True))
ask("clipped.not_skipped", lambda: clipped("clipped.not_skipped", False))
ask("clipped.warned", lambda: told(lambda: clipped("clipped.warned", False))[1])


def cleared():
    model = layer()
    optimizer = wrap(model, "cleared")
    model(DATA).sum().backward()
    try:
        optimizer.zero_grad()
    finally:
        optimizer.synchronize()


def cleared_by_model():
    model = layer()
    optimizer = wrap(model, "cleared_by_model")
    model(DATA).sum().backward()
    optimizer.synchronize()
    model.zero_grad()
    with optimizer.skip_synchronize():
        optimizer.step()
    return model.weight.detach()


ask("cleared", cleared)
ask("cleared_by_model", cleared_by_model)


def not_synchronized():
    """The step of rank 0 is over before the others' gradients can come."""
    model = layer()
    optimizer = wrap(model, "not_synchronized")
    if r:
        time.sleep(0.5)
    model(DATA).sum().backward()
    with optimizer.skip_synchronize():
        optimizer.step()
    weight, pending = model.weight.detach().clone(), len(optimizer._handles)
    optimizer.synchronize()
    return (weight, pending) if r == 0 else pending


def closure():
    """The closure's gradients are not reduced when the step is taken, on rank 0: the others' come later."""
    model = layer()
    optimizer = wrap(model, "closure")

    def backward():
        if r:
            time.sleep(0.5)
        loss = model(DATA).sum()
        loss.backward()
        return loss

    returned = optimizer.step(backward).item()
    weight = model.weight.detach().clone()
    optimizer.synchronize()
    return (returned, weight) if r == 0 else returned


ask("not_synchronized", not_synchronized)
ask("closure", closure)


def adasum_skipped():
    model = layer()
    optimizer = wrap(model, "adasum_skipped", op=hvd.Adasum)
    with optimizer.skip_synchronize():
        optimizer.step()


ask("adasum_skipped", adasum_skipped)
ask("sync_batch_norm", lambda: hvd.SyncBatchNorm(3)(torch.randn(4, 3)))
