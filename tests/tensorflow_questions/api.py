import inspect

import horovod.tensorflow.keras.elastic

PRIVATE = ("split_list", "gpu_available", "is_version_greater_equal_than", "check_extension", "Compressor")


def parameters(function):
    """Names, kinds and defaults; annotations are nobody's business."""
    return [(p.name, p.kind.name, show_default(p.default)) for p in inspect.signature(function).parameters.values()]


def show_default(value):
    if value is inspect.Parameter.empty:
        return "required"
    if value is hvd.global_process_set:
        return "global_process_set"
    return value.__name__ if inspect.isclass(value) else repr(value)


def public(thing):
    return sorted(name for name in dir(thing) if not name.startswith("_"))


def own(thing):
    """Names of what Horovod has defined, and of its constants."""
    found = {name: getattr(thing, name) for name in public(thing)}
    return [name for name, value in found.items() if isinstance(value, int) or getattr(value, "__module__", "").startswith("horovod")]


MODULES = {
    "tensorflow": hvd,
    "keras": hvd_keras,
    "keras.callbacks": hvd_keras.callbacks,
    "keras.elastic": hvd_keras.elastic,
    "elastic": hvd.elastic,
    "compression": hvd.compression,
}
ask("names.modules", lambda: [name for name in public(hvd) if inspect.ismodule(getattr(hvd, name)) and getattr(hvd, name).__name__.startswith("horovod")])
for where, module in MODULES.items():
    ask(f"names.{where}", lambda: own(module))
    for name in own(module):
        thing = getattr(module, name)
        if name in PRIVATE:
            continue
        if inspect.isfunction(thing) or inspect.ismethod(thing) or (inspect.isclass(thing) and thing.__module__.startswith("horovod") and thing.__init__ is not object.__init__):
            ask(f"parameters.{where}.{name}", lambda: parameters(thing))
for name in ("allreduce", "_allreduce", "_grouped_allreduce", "_reducescatter", "_grouped_reducescatter", "allgather", "broadcast", "broadcast_", "alltoall", "join", "size_op"):
    ask(f"parameters.mpi_ops.{name}", lambda: parameters(getattr(hvd.mpi_ops, name)))
for name in ("broadcast_object", "broadcast_variables", "allgather_object", "broadcast_object_fn"):
    ask(f"parameters.functions.{name}", lambda: parameters(getattr(hvd.functions, name)))
ask("constants", lambda: [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product, hvd_keras.Average, hvd_keras.Sum])
hvd.init()
tape = hvd.DistributedGradientTape(tf.GradientTape())
ask("attributes.tape", lambda: [name for name in public(tape) if not hasattr(tf.GradientTape(), name)])
for which, kinds in optimizers():
    for passes in (1, 2):
        wrapped = hvd_keras.DistributedOptimizer(kinds.SGD(), backward_passes_per_step=passes)
        ask(f"attributes.{which}.{passes}", lambda: [name for name in public(wrapped) if not hasattr(kinds.SGD(), name)])
    for name in ("register_local_var", "compute_gradients", "apply_gradients", "get_gradients"):
        ask(f"parameters.{which}.{name}", lambda: parameters(getattr(wrapped, name)))
ask("bases", lambda: [[base.__name__ for base in kind.__mro__ if base.__module__.startswith("horovod")] for kind in (hvd.elastic.TensorFlowKerasState, hvd_keras.elastic.KerasState, hvd_keras.callbacks.LearningRateWarmupCallback, hvd.Compression.fp16, hvd.SyncBatchNormalization)])
