"""HVD501 horovod-runner: HorovodRunner becomes TorchDistributor, or MirroredStrategyRunner for TensorFlow.

``np=-n`` is n processes on the driver, ``np=n`` a Spark job of n tasks. All three arguments of TorchDistributor are
written, since its defaults are not what anyone means. ``use_gpu`` follows what the program does with CUDA: a
reviewer checks it. TorchDistributor always streams the workers' output, so ``driver_log_verbosity`` goes.

A function that trains with TensorFlow goes to MirroredStrategyRunner of ``spark-tensorflow-distributor``, which gives
the tasks TF_CONFIG and the value of the first back; ``use_custom_strategy`` keeps it from opening a scope of its own.

What the function takes from the driver travels with it: Spark itself cannot, and large objects should not.

Example:

```python
HorovodRunner(np=2).run(train, lr=0.1)
```

Use instead:

```python
TorchDistributor(num_processes=2, local_mode=False, use_gpu=True).run(train, lr=0.1)
```
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from migrator.api import (
    Binding,
    Context,
    Finding,
    Import,
    NextStep,
    RefusalError,
    Site,
    Template,
    cst,
    dotted_name,
    expression,
    planner,
    rule,
)

from ..deepspeed.distributor import by_deepspeed
from ..tensorflow.names import is_tensorflow

MIRRORED = Import("spark_tensorflow_distributor", "MirroredStrategyRunner")
DISTRIBUTOR = Import("pyspark.ml.torch.distributor", "TorchDistributor")
RUNNER = "sparkdl.HorovodRunner"
ONE_OR_TASKS = "MirroredStrategyRunner starts tasks, or one process on the driver: np must be positive, or -1"
DRIVER_ONLY = ("spark", "sc", "dbutils", "sqlContext")
_CUDA = re.compile(r"\bcuda\b|\bnccl\b")
_GPU = re.compile(r"[\"']GPU[\"']|\bgpus?\b|\bcuda\b")


@rule("HVD501", "horovod-runner", symbols=[RUNNER])
def horovod_runner(site: Site, context: Context) -> Finding:
    arguments = site.arguments("np", "driver_log_verbosity")
    if "np" not in arguments:
        raise RefusalError("the call does not say how many processes it starts")
    if is_tensorflow(context):
        return _mirrored(arguments, site, context)
    gpu = any(_CUDA.search(module.text) for module in context.modules)
    new = _distributor(arguments["np"], gpu, site)
    notes = [
        f"HorovodRunner → TorchDistributor, use_gpu={gpu} because the program {'names' if gpu else 'never names'} CUDA"
    ]
    if "driver_log_verbosity" in arguments:
        notes.append("driver_log_verbosity goes: all output of the workers is shown")
    found = site.replace(new, class_="review", message="; ".join(notes), imports=[DISTRIBUTOR])
    return by_deepspeed(found, context)


def _mirrored(arguments: Mapping[str, cst.BaseExpression], site: Site, context: Context) -> Finding:
    np, gpu = arguments["np"], any(_GPU.search(module.text) for module in context.modules)
    number = _literal(np)
    if number == 0:
        raise RefusalError("np=0 takes every task slot of the cluster; say how many processes to start")
    if number is not None and number < -1:
        raise RefusalError(ONE_OR_TASKS)
    options = f"local_mode={number == -1}, use_gpu={gpu}, use_custom_strategy=True"
    slots = expression("1") if number == -1 else expression("{np}", np=np)
    new = Template(f"MirroredStrategyRunner(num_slots={slots.text}, {options})", slots.parts)
    notes = [
        f"HorovodRunner → MirroredStrategyRunner, use_gpu={gpu}: the program {'names' if gpu else 'never names'} GPUs",
        "install spark-tensorflow-distributor",
    ]
    if number is None and not _is_positive(np, site):
        notes.append("np is taken to be positive")
    return site.replace(new, class_="review", message="; ".join(notes), imports=[MIRRORED])


@rule("HVD501", "horovod-runner", symbols=[f"{RUNNER}.run"])
def run(site: Site, context: Context) -> tuple[Finding, ...]:
    if site.call is None or any(site is other for other in context.uses(site.symbol)):
        raise RefusalError("run is taken from the class or passed on as a value: call it on a HorovodRunner")
    if not site.call.args or site.call.args[0].keyword is not None or site.call.args[0].star:
        raise RefusalError("run must be given its function in the first place: TorchDistributor's has another name")
    shipped = {id(finding.node): finding for finding in _shipped(site.call, site)}
    return _run(site, context), *shipped.values()


def _run(site: Site, context: Context) -> Finding:
    if is_tensorflow(context):
        return site.found("exact", "run → MirroredStrategyRunner.run, with the same function and arguments")
    message = "run → TorchDistributor.run, with the same function and arguments"
    if site.is_discarded:
        return site.found("exact", message)
    value = "the returned value is rank 0's in a Spark job; on the driver it is that of the last rank to finish"
    return site.found("review", f"{message}; {value}")


@planner
def plan_runner(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find where runners are used, and say how a program that starts its ranks itself is started now."""
    sites = context.uses(RUNNER)
    paths = dict.fromkeys(site.module.path for site in sites)
    runner = "MirroredStrategyRunner" if is_tensorflow(context) else "TorchDistributor"
    steps = [NextStep(f"run {path} on Spark as before: {runner} starts the ranks") for path in paths]
    runs = {id(run.node): run for site in sites for run in _runs(site)}
    return steps, list(runs.values())


def _distributor(np: cst.BaseExpression, gpu: bool, site: Site) -> Template:
    number = _literal(np)
    if number is None and _is_positive(np, site):
        return expression(f"TorchDistributor(num_processes={{np}}, local_mode=False, use_gpu={gpu})", np=np)
    if number == 0:
        raise RefusalError("np=0 takes every task slot of the cluster; say how many processes to start")
    if number is not None:
        return Template(f"TorchDistributor(num_processes={abs(number)}, local_mode={number < 0}, use_gpu={gpu})")
    if not isinstance(np, (cst.Name, cst.Attribute)):
        raise RefusalError("how many processes are started, and where, is computed in the call: give it a name first")
    text = f"TorchDistributor(num_processes=abs({{np}}), local_mode={{np}} < 0, use_gpu={gpu})"
    return expression(text, np=np)


def _is_positive(np: cst.BaseExpression, site: Site) -> bool:
    """Whether ``np`` names a number of the module that is positive wherever it is assigned."""
    bindings = site.scope.lookup(np.value) if isinstance(np, cst.Name) else ()
    values = [_literal(b.value) if b.value is not None and b.kind == "assignment" else None for b in bindings]
    return bool(values) and all(value is not None and value > 0 for value in values)


def _literal(node: cst.BaseExpression) -> int | None:
    if isinstance(node, cst.Integer):
        return int(node.value, 0)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = _literal(node.expression)
        return None if inner is None else -inner
    return None


def _runs(site: Site) -> Iterator[Site]:
    """The uses of ``run`` of this runner."""
    index = site.module.index
    target = site.assigned_to
    for attribute in index.attributes["run"]:
        call = index.parent(attribute)
        own = attribute.value is site.call
        named = (
            isinstance(target, cst.Name)
            and isinstance(attribute.value, cst.Name)
            and attribute.value.value == target.value
        )
        if own or named:
            call = call if isinstance(call, cst.Call) and call.func is attribute else None
            yield Site(f"{RUNNER}.run", attribute, call, site.module, index.scope_of(attribute), site.home)


def _shipped(call: cst.Call, site: Site) -> Iterator[Finding]:
    """What the function that ``call`` ships takes along from the driver."""
    function = call.args[0].value
    if isinstance(function, cst.Call) and dotted_name(function.func).rpartition(".")[2] != "partial":
        yield site.found(
            "review", "the function is called here, and its result is handed over: run(f), not run(f())", node=function
        )
    if not isinstance(function, cst.Name):
        return
    found = site.module.index.scope_of(call).lookup(function.value)
    if len(found) == 1 and isinstance(found[0].node, cst.FunctionDef):
        yield from _taken_along(found[0].node, site)


def _taken_along(function: cst.FunctionDef, site: Site) -> Iterator[Finding]:
    index = site.module.index
    for name, references in index.references.items():
        for reference in references:
            if not any(holder is function for holder in index.ancestors(reference.node)):
                continue
            bindings = reference.scope.lookup(name)
            if name in DRIVER_ONLY and all(b.scope.kind == "module" for b in bindings):
                yield site.found("review", f"{name!r} exists on the driver only", node=reference.node)
            elif (
                bindings and any(isinstance(b.value, cst.Call) for b in bindings) and all(map(_is_made_here, bindings))
            ):
                message = (
                    f"{name!r} is made on the driver and travels with the function: it must be picklable, and small"
                )
                yield site.found("review", message, node=reference.node)


def _is_made_here(binding: Binding) -> bool:
    return binding.kind == "assignment" and binding.scope.kind == "module" and binding.value is not None


@rule("HVD502", "log-to-driver", symbols=["sparkdl.horovod.tensorflow.keras.LogCallback"])
def log_callback(site: Site, context: Context) -> Finding:
    """LogCallback does so for Keras, which TorchDistributor does not start: that is explained."""
    raise RefusalError("LogCallback logs Keras' epochs to the driver: print them, in a callback of your own")


@rule("HVD502", "log-to-driver", symbols=["sparkdl.horovod.log_to_driver"])
def log_to_driver(site: Site, context: Context) -> Finding:
    """HVD502 log-to-driver: a line for the driver's output is a line of output.

    TorchDistributor shows what the workers print. Horovod cut messages at 4000 characters.
    """
    message = site.arguments("message").get("message")
    if message is None:
        raise RefusalError("the call does not say what it logs")
    return site.replace(expression("print({message}, flush=True)", message=message))
