import inspect

import horovod.common.elastic
import horovod.common.exceptions
import horovod.common.process_sets
import horovod.runner
from horovod.torch.mpi_ops import sparse_allreduce_async

PRIVATE = ("check_extension", "check_installed_version")


def parameters(function):
    """Names, kinds and defaults; annotations are nobody's business."""
    return [(p.name, p.kind.name, show_default(p.default)) for p in inspect.signature(function).parameters.values()]


def show_default(value):
    if value is inspect.Parameter.empty:
        return "required"
    return value.__name__ if inspect.isclass(value) else str(value) if isinstance(value, hvd.ProcessSet) else repr(value)


def public(thing):
    return sorted(name for name in dir(thing) if not name.startswith("_"))


ask("names", lambda: public(hvd))
ask("names.elastic", lambda: public(hvd.elastic))
ask("constants", lambda: [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product])
for name in public(hvd):
    thing = getattr(hvd, name)
    if inspect.isfunction(thing) or inspect.ismethod(thing):
        ask(f"parameters.{name}", lambda: parameters(thing))
ask("parameters.sparse_allreduce_async", lambda: parameters(sparse_allreduce_async))
ask("parameters.run", lambda: parameters(horovod.runner.run))
layer = torch.nn.Linear(1, 1)
hvd.init()
wrapped = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0))
state = hvd.elastic.TorchState(layer, wrapped, epoch=0)
sampler = hvd.elastic.ElasticSampler(range(3))
plain = torch.optim.SGD(layer.parameters(), lr=1.0)
for name, thing, known in (
    ("ProcessSet", hvd.ProcessSet([0]), object()),
    ("fp16", hvd.Compression.fp16, object()),
    ("none", hvd.Compression.none, object()),
    ("Compression", hvd.Compression, object()),
    ("TorchState", state, object()),
    ("ElasticSampler", sampler, torch.utils.data.Sampler()),
    ("SyncBatchNorm", hvd.SyncBatchNorm(3), torch.nn.BatchNorm1d(3)),
    ("DistributedOptimizer", wrapped, plain),
):
    new = [one for one in public(thing) if not hasattr(known, one) or inspect.ismethod(getattr(thing, one))]
    ask(f"attributes.{name}", lambda: [one for one in new if not hasattr(known, one)])
    for one in new:
        ask(f"parameters.{name}.{one}", lambda: parameters(getattr(thing, one)) if callable(getattr(thing, one)) else "value")
for name, thing in {"ElasticSampler": hvd.elastic.ElasticSampler, "SyncBatchNorm": hvd.SyncBatchNorm, "TorchState": hvd.elastic.TorchState}.items():
    ask(f"parameters.{name}", lambda: parameters(thing))
ask("parameters.elastic.run", lambda: parameters(hvd.elastic.run))
for name in ("HorovodInternalError", "HostsUpdatedInterrupt"):
    ask(f"error.{name}", lambda: [one.__name__ for one in getattr(horovod.common.exceptions, name).__mro__])
ask("error.same", lambda: hvd.HorovodInternalError is horovod.common.exceptions.HorovodInternalError)
ask("set.text", lambda: str(hvd.ProcessSet([1, 0])))
ask("set.text.global", lambda: str(hvd.global_process_set))
