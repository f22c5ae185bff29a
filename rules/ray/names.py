"""Symbols that several rules ask for, and what emitted code imports from Ray."""

from collections.abc import Iterator

from migrator.api import Context, Import, Module, Site, cst

from ..values import symbol_of

TRAINER = "ray.train.horovod.HorovodTrainer"
EXECUTOR = "horovod.ray.RayExecutor"
OLD_TRAINER = "ray.train.Trainer.backend"

FORMER = ("ray.train.Trainer", "ray.train.trainer.Trainer", "ray.util.sgd.v2.Trainer", "ray.sgd.Trainer")

TORCH_TRAINER = Import("ray.train.torch", "TorchTrainer")
TORCH_CONFIG = Import("ray.train.torch", "TorchConfig")
SCALING_CONFIG = Import("ray.train", "ScalingConfig")

TENSORFLOW = (
    "the function trains with TensorFlow: Ray's TensorflowTrainer has no LOCAL_RANK for its workers, and makes their "
    "Keras the legacy one: migrate the function alone, then see whether TensorflowTrainer runs it"
)
PREPARES = (
    "prepare_model puts the model into DDP itself, so the migrated program would average twice: take it out, or the "
    "DistributedOptimizer"
)


def is_started_by_ray(context: Context) -> bool:
    """Whether Ray starts the program's ranks, so that they have joined the process group before its code runs."""
    return bool(context.uses(TRAINER) or context.uses(EXECUTOR)) or any(map(backends, context.modules))


def backends(module: Module) -> list[Site]:
    """The strings by which the module chooses Horovod for a Trainer of Ray."""
    return [
        Site(OLD_TRAINER, node, None, module, module.index.scope_of(node), module.index.scope)
        for node in _named(module)
    ]


def _named(module: Module) -> Iterator[cst.SimpleString]:
    for node in module.index.strings:
        argument = module.index.parent(node)
        call = module.index.parent(argument) if isinstance(argument, cst.Arg) else None
        if node.raw_value != "horovod" or not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call):
            continue
        is_backend = argument.keyword.value == "backend" if argument.keyword is not None else call.args[0] is argument
        if is_backend and symbol_of(call.func, module) in FORMER:
            yield node


def prepares_model(context: Context) -> bool:
    """Whether the program lets Ray wrap its model."""
    indices = (module.index for module in context.modules)
    return any(index.references["prepare_model"] or index.attributes["prepare_model"] for index in indices)
