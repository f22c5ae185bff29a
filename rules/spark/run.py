"""HVD503 horovod-spark-run: ``horovod.spark.run`` becomes a TorchDistributor that runs the function in a Spark job.

``horovod.spark.run`` returns a list with the value of every rank, TorchDistributor the value of rank 0. Where only the
first is used, that is it; where the list is, ``gather_results`` makes the function return what it returned on every
rank. Without ``num_proc`` there are as many ranks as Spark's default parallelism, which is written out.
TorchDistributor needs an active SparkSession, where Horovod was content with a SparkContext, and as many free slots as
ranks at once.

``env`` is set where the function begins, but for a copy of the driver's whole environment. Other arguments have no
counterpart and are named with what does their work. A function that trains with TensorFlow goes to
MirroredStrategyRunner, which returns the value of the first worker only.

Example:

```python
loss = horovod.spark.run(train, args=(0.1,), num_proc=2)[0]
```

Use instead:

```python
loss = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False).run(train, 0.1)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from migrator.api import Context, Finding, Import, Module, RefusalError, Replace, Site, Template, cst, rule

from ..tensorflow.names import is_tensorflow
from ..torch.names import PARTIAL
from ..values import is_constant, symbol_of
from .names import DISTRIBUTOR, INSTALL, MIRRORED, SESSION, SLOTS, SPARK_RUN, names_gpus, why_gpu

_OUTPUT = "the driver shows all output of the workers"
_BACKEND = "ranks talk by the backend of the process group"
DROPPED = {
    "start_timeout": "Spark says how long tasks wait for free slots (spark.barrier.*)",
    "use_mpi": _BACKEND,
    "use_gloo": _BACKEND,
    "extra_mpi_args": _BACKEND,
    "stdout": _OUTPUT,
    "stderr": _OUTPUT,
    "verbose": _OUTPUT,
    "nics": "set GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME in the function",
    "prefix_output_with_timestamp": _OUTPUT,
    "executable": "the workers' Python is PYSPARK_PYTHON",
    "environment": "it is the driver's environment, of which the workers get what spark.executorEnv names",
}
ORDER = (
    *("fn", "args", "kwargs", "num_proc", "start_timeout", "use_mpi", "use_gloo", "extra_mpi_args", "env"),
    *("stdout", "stderr", "verbose", "nics", "prefix_output_with_timestamp", "executable"),
)
ONE_VALUE = "MirroredStrategyRunner returns the first worker's value only: take that with [0], or write out the others"


@rule("HVD503", "horovod-spark-run", symbols=[SPARK_RUN])
def spark_run(site: Site, context: Context) -> Finding:
    given = site.arguments(*ORDER, "launcher", "backend")
    arguments = {name: value for name, value in given.items() if not is_constant(value, "None")}
    if _is_whole_environment(arguments.get("env"), site.module):
        arguments["environment"] = arguments.pop("env")
    if "fn" not in arguments:
        raise RefusalError("the call does not say what it runs")
    first = _first_alone(site)
    gathers = first is None and not site.is_discarded
    if gathers and is_tensorflow(context):
        raise RefusalError(ONE_VALUE)
    new, imports, helpers = _call(arguments, gathers, context)
    message = "; ".join(_messages(arguments, first is not None, gathers, context))
    edits = [Replace(first or site.target, new)]
    return site.found("review", message, edits, imports=imports, helpers=helpers)


def _is_whole_environment(value: cst.BaseExpression | None, module: Module) -> bool:
    """Whether ``env`` is what the driver's environment is: ``os.environ``, or a copy."""
    if isinstance(value, cst.Call):
        value = value.args[0].value if value.args else getattr(value.func, "value", None)
    return isinstance(value, cst.Attribute) and symbol_of(value, module) == "os.environ"


def _first_alone(site: Site) -> cst.Subscript | None:
    """``run(...)[0]``, where that is all that is used."""
    holder = site.module.index.parent(site.target)
    if not isinstance(holder, cst.Subscript) or len(holder.slice) != 1:
        return None
    index = holder.slice[0].slice
    return holder if isinstance(index, cst.Index) and is_constant(index.value, "0") else None


def _call(
    arguments: Mapping[str, cst.BaseExpression], gathers: bool, context: Context
) -> tuple[Template, list[Import], list[str]]:
    parts: dict[str, cst.CSTNode] = {name: arguments[name] for name in ("fn", "num_proc", "env") if name in arguments}
    in_order = list(_spread(arguments.get("args"), "argument", parts))
    named = list(_spread(arguments.get("kwargs"), "value", parts))
    number, gpu = ("{num_proc}" if "num_proc" in arguments else SLOTS), names_gpus(context)
    imports = [] if "num_proc" in arguments else [SESSION]
    function, helpers = "{fn}", []
    if is_tensorflow(context):
        if in_order:
            function, in_order = f"partial({', '.join([function, *in_order])})", []
            imports.append(PARTIAL)
        options = f"num_slots={number}, local_mode=False, use_gpu={gpu}, use_custom_strategy=True"
        runner, imports = f"MirroredStrategyRunner({options})", [*imports, MIRRORED]
    else:
        options = f"num_processes={number}, local_mode=False, use_gpu={gpu}"
        runner, imports = f"TorchDistributor({options})", [*imports, DISTRIBUTOR]
    for helper, text in (("with_environment", "{function}, {env}"), ("gather_results", "{function}")):
        if "env" in arguments if helper == "with_environment" else gathers:
            function = f"{helper}({text.replace('{function}', function)})"
            helpers.append(helper)
    return Template(f"{runner}.run({', '.join([function, *in_order, *named])})", parts), imports, helpers


def _spread(value: cst.BaseExpression | None, name: str, parts: dict[str, cst.CSTNode]) -> Iterator[str]:
    """The arguments that a tuple or dictionary holds, written out where it is; adds to ``parts``."""
    if value is None:
        return
    elements = value.elements if isinstance(value, (cst.Tuple, cst.List, cst.Dict)) else None
    if elements is None or (isinstance(value, cst.Dict) and not all(map(_is_keyword, elements))):
        parts[name] = value
        yield f"{'*' if name == 'argument' else '**'}{{{name}}}"
        return
    for place, element in enumerate(elements):
        parts[f"{name}{place}"] = element.value
        star = "*" if isinstance(element, cst.StarredElement) else ""
        key = element.key if isinstance(element, cst.DictElement) else None
        keyword = f"{key.raw_value}=" if isinstance(key, cst.SimpleString) else ""
        yield f"{star}{keyword}{{{name}{place}}}"


def _is_keyword(element: cst.BaseDictElement | cst.BaseElement) -> bool:
    key = element.key if isinstance(element, cst.DictElement) else None
    return isinstance(key, cst.SimpleString) and key.raw_value.isidentifier()


def _messages(
    arguments: Mapping[str, cst.BaseExpression], is_first: bool, gathers: bool, context: Context
) -> Iterator[str]:
    runner = "MirroredStrategyRunner" if is_tensorflow(context) else "TorchDistributor"
    yield f"horovod.spark.run → {runner}, which needs an active SparkSession, {why_gpu(names_gpus(context))}"
    if is_tensorflow(context):
        yield INSTALL
    if {"launcher", "backend"} & {*arguments}:
        yield "the call names horovod.spark, and is taken to do what horovod.spark.run does"
    if is_first:
        yield "the value of rank 0 is what it returns"
    if gathers:
        yield "the list of all ranks' values is gathered when all have ended"
    if "env" in arguments:
        yield "env is set where the function begins: what is read earlier, such as LD_LIBRARY_PATH, comes too late"
    reasons: dict[str, list[str]] = {}
    for name in (name for name in DROPPED if name in arguments):
        reasons.setdefault(DROPPED[name], []).append(name)
    for reason, names in reasons.items():
        shown = ", ".join(names).replace("environment", "env")
        yield f"{shown} {'goes' if len(names) == 1 else 'go'}: {reason}"
