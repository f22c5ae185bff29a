"""Symbols that several rules for Spark ask for, and what emitted code imports."""

from __future__ import annotations

from collections.abc import Iterator

from migrator.api import Context, Import, Module, Site, children_of, cst

RUNNER = "sparkdl.HorovodRunner"
RUN = f"{RUNNER}.run"
SPARK_RUN = "horovod.spark.run"
NAMED = ("horovod.spark", "horovod_spark")
LAUNCHERS = (RUNNER, SPARK_RUN)
DISTRIBUTOR = Import("pyspark.ml.torch.distributor", "TorchDistributor")
MIRRORED = Import("spark_tensorflow_distributor", "MirroredStrategyRunner")
SESSION = Import("pyspark.sql", "SparkSession")
SLOTS = "SparkSession.builder.getOrCreate().sparkContext.defaultParallelism"
INSTALL = "install spark-tensorflow-distributor"
_DEVICES = ("cuda", "nccl", "gpu", "gpus")


def names_gpus(context: Context) -> bool:
    """Whether the code of the program names CUDA, NCCL or GPUs."""
    return any(_names_gpus(module) for module in context.modules)


def _names_gpus(module: Module) -> bool:
    index = module.index
    if any(name in index.attributes or name in index.names for name in _DEVICES):
        return True
    texts = [string.raw_value for string in index.strings] + [part.value for part in _texts(index.tree)]
    return any(text.lower().partition(":")[0] in _DEVICES or "cuda" in text.lower().split() for text in texts)


def _texts(node: cst.CSTNode) -> Iterator[cst.FormattedStringText]:
    """The fixed parts of every f-string under ``node``."""
    for child in children_of(node):
        if isinstance(child, cst.FormattedStringText):
            yield child
        yield from _texts(child)


def why_gpu(gpu: bool) -> str:
    """The reason for ``use_gpu``, for a reviewer."""
    return f"use_gpu={gpu} because the program {'names' if gpu else 'never names'} GPUs"


def starts_ranks(context: Context) -> Iterator[Site]:
    """The places that start ranks on Spark."""
    for symbol in LAUNCHERS:
        yield from context.uses(symbol)
    yield from named_launchers(context)


def named_launchers(context: Context) -> Iterator[Site]:
    """The calls that let ``horovod.spark``, by its name, run a function: ``run(f, launcher="horovod.spark", ...)``."""
    for module in context.modules:
        for string in (string for string in module.index.strings if string.raw_value in NAMED):
            call = module.index.parent(module.index.parent(string) or string)
            names = _keywords(call) if isinstance(call, cst.Call) else set()
            if isinstance(call, cst.Call) and {"launcher", "backend"} & names and "num_proc" in names:
                yield Site(SPARK_RUN, call.func, call, module, module.index.scope_of(call), module.index.scope)


def _keywords(call: cst.Call) -> set[str]:
    return {argument.keyword.value for argument in call.args if argument.keyword is not None}
