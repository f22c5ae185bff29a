import threading
import time

hvd.init()
r, n = hvd.rank(), hvd.size()
KINDS = {
    "reduce": lambda name: hvd.allreduce_async(torch.tensor([1.0, 2.0]) + r, name=name),
    "reduce.double": lambda name: hvd.allreduce_async(torch.tensor([1.0, 2.0]).double() + r, name=name),
    "reduce.sum": lambda name: hvd.allreduce_async(torch.tensor([[1.0 + r]]), name=name, op=hvd.Sum),
    "in_place": lambda name: hvd.allreduce_async_(torch.tensor([3 + r]), name=name, op=hvd.Max),
    "gather": lambda name: hvd.allgather_async(torch.full((r + 1,), float(r)), name=name),
    "broadcast": lambda name: hvd.broadcast_async(torch.tensor([1.0 + r]), 1, name=name),
    "exchange": lambda name: hvd.alltoall_async(torch.arange(2.0 * n) + 10 * r, name=name),
    "scatter": lambda name: hvd.reducescatter_async(torch.arange(2.0 * n) + r, name=name),
    "group": lambda name: hvd.grouped_allreduce_async([torch.tensor([1.0 + r]), torch.tensor([2, 3 + r])], name=name),
    "group.gather": lambda name: hvd.grouped_allgather_async([torch.ones(r), torch.ones(1, 2) * r], name=name),
}


def rotated(items):
    """Every rank begins elsewhere."""
    items = list(items)
    start = r * len(items) // n
    return items[start:] + items[:start]


def waited(handles):
    return {name: show(hvd.synchronize(handle)) for name, handle in handles.items()}


def in_order(answers):
    return [answers[name] for name in sorted(answers)]


def reduced(order):
    return in_order(waited({k: hvd.allreduce_async(torch.tensor([k + 0.5 * r]), name=f"t{k}") for k in order}))


def all_kinds(naming):
    return in_order(waited({kind: KINDS[kind](naming(kind)) for kind in rotated(KINDS)}))


ask("backwards", lambda: reduced(range(20) if r == 0 else reversed(range(20))))
ask("rotated", lambda: reduced(rotated(range(20))))
ask("again", lambda: reduced(rotated(range(20))))
ask("kinds", lambda: all_kinds(lambda kind: kind))
ask("kinds.one_name_each", lambda: all_kinds(lambda kind: "name" + "." * list(KINDS).index(kind)))


def one_name():
    """Names are one kind's own."""
    starts = [KINDS[kind] for kind in ("reduce", "gather", "broadcast", "exchange", "scatter", "group", "group.gather")]
    return [hvd.synchronize(handle) for handle in reversed([start("same") for start in starts])]


ask("one_name", one_name)


def large():
    """More than is sent at once."""
    sizes = [1 << 16, 3, 1 << 18, 5, (1 << 16) + 1]
    handles = {k: hvd.allreduce_async(torch.full((size,), k + 1.0 + r), name=f"large{k}") for k, size in rotated(enumerate(sizes))}
    return [(len(out), out[0].item(), bool((out == out[0]).all())) for out in (hvd.synchronize(handles[k]) for k in sorted(handles))]


ask("large", large)


def late():
    """A name is ready when the last rank has submitted it."""
    if r:
        time.sleep(0.5)
    handle = hvd.allreduce_async(torch.tensor([1.0 + r]), name="late")
    was_ready = hvd.poll(handle) if r == 0 else None
    answer = hvd.synchronize(handle)
    return answer, was_ready


ask("late", late)
ask("handle", lambda: type(hvd.allreduce_async(torch.ones(1), name="handle")).__name__)


def out_of_order():
    """The one that waits for a name that comes later gets on with others."""
    if r == 0:
        first = hvd.allreduce_async(torch.tensor([1.0]), name="first")
        return hvd.allreduce(torch.tensor([2.0]), name="second"), hvd.synchronize(first)
    second = hvd.allreduce(torch.tensor([20.0]), name="second")
    return second, hvd.allreduce(torch.tensor([10.0]), name="first")


ask("out_of_order", out_of_order)


def waited_backwards():
    handles = [hvd.allreduce_async(torch.tensor([k + r]), name=f"w{k}") for k in range(5)]
    return [hvd.synchronize(handle) for handle in (reversed(handles) if r else handles)][::-1 if r else 1]


ask("waited_backwards", waited_backwards)


def unnamed():
    """Without names, ranks must ask in one order."""
    time.sleep(0.1 * r)
    first, second = (torch.ones(2), torch.ones(3)) if r == 0 else (torch.ones(3), torch.ones(2))
    return hvd.allreduce(first), hvd.allreduce(second)


ask("unnamed", unnamed)
ask("unnamed.second", lambda: hvd.allreduce(torch.ones(3) * r))


def parameters():
    """Broadcasts go by name, not by place."""
    weights = {f"w{k}": torch.tensor([10.0 * r + k]) for k in rotated(range(5))}
    hvd.broadcast_parameters(weights, root_rank=0)
    return in_order({name: show(value) for name, value in weights.items()})


ask("parameters", parameters)


def gradients():
    """Backward passes in another order on every rank."""
    layers = [torch.nn.Linear(1, 1, bias=False) for _ in range(4)]
    for layer in layers:
        torch.nn.init.ones_(layer.weight)
    named = [(f"layer{k}", layer.weight) for k, layer in enumerate(layers)]
    sgd = hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in named], lr=1.0), named_parameters=named)
    for k in rotated(range(4)):
        layers[k](torch.tensor([[k + 1.0 + r]])).sum().backward()
    sgd.step()
    return [layer.weight.item() for layer in layers]


ask("gradients", gradients)


def threads():
    """Collectives of several threads, which no two ranks run in one order."""
    answers = {}

    def reduce(thread):
        for k in range(5):
            name = f"thread{thread}.{k}"
            answers[name] = hvd.allreduce(torch.tensor([10.0 * thread + k + r]), name=name).item()

    started = [threading.Thread(target=reduce, args=(thread,)) for thread in rotated(range(3))]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return in_order(answers)


ask("threads", threads)
