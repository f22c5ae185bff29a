"""HVD501 horovod-runner: HorovodRunner becomes TorchDistributor, or MirroredStrategyRunner for TensorFlow.

``np=-n`` is n processes on the driver, ``np=n`` a Spark job of n tasks, ``np=0`` one on every slot. All three arguments
of TorchDistributor are written, since its defaults are not what anyone means. ``use_gpu`` follows what the program
names: a reviewer checks it. TorchDistributor always streams the workers' output, so ``driver_log_verbosity`` goes.

On the driver TorchDistributor returns what the last rank to finish returned, and does not notice a rank that fails
after another has returned. Where several ranks share the driver, or may, ``finish_together`` is put around the
function: rank 0 alone returns, when all others have ended. In a Spark job every task is looked at, and the value is
rank 0's.

A function that trains with TensorFlow goes to MirroredStrategyRunner of ``spark-tensorflow-distributor``, which gives
the tasks TF_CONFIG and the value of the first back; ``use_custom_strategy`` keeps it from opening a scope of its own.

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

from collections.abc import Mapping

from migrator.api import (
    Context,
    Edit,
    Finding,
    Import,
    RefusalError,
    Replace,
    Site,
    Template,
    cst,
    dotted_name,
    expression,
    rule,
)

from ..deepspeed.distributor import by_deepspeed
from ..tensorflow.names import is_tensorflow
from ..torch.names import TORCH
from .launches import Runs
from .names import DISTRIBUTOR, INSTALL, MIRRORED, RUN, RUNNER, SESSION, SLOTS, names_gpus, why_gpu
from .processes import Processes, processes_of

ONE_OR_TASKS = "MirroredStrategyRunner starts tasks, or one process on the driver: np must be positive, or -1"
EVERY_SLOT = "np=0 takes every slot of the cluster, which is written out as Spark's default parallelism"


@rule("HVD501", "horovod-runner", symbols=[RUNNER])
def horovod_runner(site: Site, context: Context) -> Finding:
    name = MIRRORED if is_tensorflow(context) else DISTRIBUTOR
    if site.is_annotation:
        return site.replace(expression(name.local), imports=[name])
    arguments = site.arguments("np", "driver_log_verbosity")
    if "np" not in arguments:
        raise RefusalError("the call does not say how many processes it starts")
    processes, gpu = processes_of(arguments["np"], site.module), names_gpus(context)
    notes = [*_notes(site, arguments, processes), *_out_of_sight(site, context, processes)]
    if is_tensorflow(context):
        return _mirrored(site, processes, gpu, notes)
    new, imports = _distributor(processes, gpu, site)
    message = "; ".join([f"HorovodRunner → TorchDistributor, {_why(processes, gpu)}", *notes])
    return by_deepspeed(site.replace(new, class_="review", message=message, imports=imports), context)


def _notes(site: Site, arguments: Mapping[str, cst.BaseExpression], processes: Processes) -> list[str]:
    notes = []
    if site.call is not None and site.call.args[0].keyword is None:
        notes.append("HorovodRunner takes np by name only: this call raised a TypeError")
    if "driver_log_verbosity" in arguments:
        notes.append("driver_log_verbosity goes: all output of the workers is shown")
    return [*notes, EVERY_SLOT] if processes.number == 0 else notes


def _out_of_sight(site: Site, context: Context, processes: Processes) -> list[str]:
    """A warning where the runner's ``run`` is not in sight; RefusalError where that matters."""
    node = next(context.plan(Runs)).hidden.get(id(site.node))
    if node is None:
        return []
    text = site.module.holding(node).source(node).strip()
    if processes.may_share_the_driver and not is_tensorflow(context):
        raise RefusalError(
            f"what the runner runs is not in sight, because of {text!r}: on the driver TorchDistributor does not "
            "notice a rank that fails after another has returned"
        )
    return [f"what the runner runs is not in sight, because of {text!r}"]


def _why(processes: Processes, gpu: bool) -> str:
    if gpu and processes.is_on_driver:
        return "use_gpu where the driver has GPUs, because the program names them"
    return why_gpu(gpu)


def _distributor(processes: Processes, gpu: bool, site: Site) -> tuple[Template, list[Import]]:
    """The call of TorchDistributor, with the imports that it needs."""
    number, np = processes.number, processes.node
    if number == 0:
        text = f"TorchDistributor(num_processes={SLOTS}, local_mode=False, use_gpu={gpu})"
        return Template(text), [DISTRIBUTOR, SESSION]
    use_gpu, imports = f"use_gpu={gpu}", [DISTRIBUTOR]
    if gpu and processes.is_on_driver:
        use_gpu, imports = "use_gpu=torch.cuda.is_available()", [DISTRIBUTOR, TORCH]
    if number is not None:
        return Template(f"TorchDistributor(num_processes={abs(number)}, local_mode={number < 0}, {use_gpu})"), imports
    if processes.is_a_job:
        return expression(f"TorchDistributor(num_processes={{np}}, local_mode=False, {use_gpu})", np=np), imports
    if processes.is_on_driver and isinstance(np, cst.UnaryOperation):
        text = f"TorchDistributor(num_processes={{np}}, local_mode=True, {use_gpu})"
        return expression(text, np=np.expression), imports
    if isinstance(np, (cst.Name, cst.Attribute)):
        where = "True" if processes.is_on_driver else "{np} < 0"
        text = f"TorchDistributor(num_processes=abs({{np}}), local_mode={where}, {use_gpu})"
        return expression(text, np=np), imports
    name = _free("processes", site)
    text = f"TorchDistributor(num_processes=abs({name} := {{np}}), local_mode={name} < 0, {use_gpu})"
    return expression(text, np=np), imports


def _free(name: str, site: Site) -> str:
    """A name that the module does not use, made of ``name``."""
    taken = site.module.index.names
    return next(each for each in (name, *(f"{name}_{n}" for n in range(2, 1000))) if each not in taken)


def _mirrored(site: Site, processes: Processes, gpu: bool, notes: list[str]) -> Finding:
    number = processes.number
    if number is not None and number < -1:
        raise RefusalError(ONE_OR_TASKS)
    options = f"local_mode={number == -1}, use_gpu={gpu}, use_custom_strategy=True"
    fixed = {-1: "1", 0: SLOTS}.get(number) if number is not None else None
    slots = Template(fixed) if fixed else expression("{np}", np=processes.node)
    new = Template(f"MirroredStrategyRunner(num_slots={slots.text}, {options})", slots.parts)
    said = [f"HorovodRunner → MirroredStrategyRunner, {why_gpu(gpu)}", INSTALL, *notes]
    if number is None and not processes.is_a_job:
        said.append("np is taken to be positive")
    imports = [MIRRORED, SESSION] if number == 0 else [MIRRORED]
    return site.replace(new, class_="review", message="; ".join(said), imports=imports)


@rule("HVD501", "horovod-runner", symbols=[RUN])
def run(site: Site, context: Context) -> Finding:
    if site.call is None or any(site is other for other in context.uses(site.symbol)):
        raise RefusalError("run is taken from the class or passed on as a value: call it on a HorovodRunner")
    function = _function(site.call)
    if _holds_runner(function.value, site):
        raise RefusalError(
            "the method goes to the workers with its object, which holds the runner and, with it, Spark's session: "
            "make the runner where it is used"
        )
    together = not is_tensorflow(context) and next(context.plan(Runs)).on_driver[id(site.node)]
    edits = _edits(site, site.call, function, together)
    runner = "MirroredStrategyRunner" if is_tensorflow(context) else "TorchDistributor"
    notes = [f"run → {runner}.run, with the same function and arguments"]
    if together:
        notes.append("rank 0 returns when all ranks have ended, so that one that fails late is noticed")
    elif not site.is_discarded and not is_tensorflow(context):
        notes.append("the returned value is rank 0's, as long as no task has several GPUs")
    if any(a.keyword is None and not a.star for a in site.call.args[1:]):
        notes.append("HorovodRunner.run takes the function's arguments by name only: this call raised a TypeError")
    helpers = ["finish_together"] if together else []
    return site.found("exact" if len(notes) == 1 or together else "review", "; ".join(notes), edits, helpers=helpers)


def _holds_runner(function: cst.BaseExpression, site: Site) -> bool:
    """Whether the object whose method is shipped holds the runner."""
    assert isinstance(site.node, cst.Attribute)
    runner = site.node.value
    holders = [dotted_name(each.value) for each in (function, runner) if isinstance(each, cst.Attribute)]
    return len(holders) == 2 and bool(holders[0]) and holders[0] == holders[1]


def _function(call: cst.Call) -> cst.Arg:
    """The argument that is the function to run."""
    first = [argument for argument in call.args[:1] if argument.keyword is None and not argument.star]
    named = [argument for argument in call.args if argument.keyword is not None and argument.keyword.value == "main"]
    if not (first or named):
        raise RefusalError("which function runs cannot be determined from the code")
    return (first or named)[0]


def _edits(site: Site, call: cst.Call, function: cst.Arg, together: bool) -> list[Edit]:
    """The function put in the first place, without a name, and made to finish together."""
    text = "finish_together({function})" if together else "{function}"
    if function.keyword is None:
        return [Replace(function.value, expression(text, function=function.value))] if together else []
    assert isinstance(call.func, cst.Attribute)
    others = [argument for argument in call.args if argument is not function]
    parts: dict[str, cst.CSTNode] = {f"part{n}": argument.value for n, argument in enumerate(others)}
    rest = [
        f", {a.star}{a.keyword.value + '=' if a.keyword else ''}{{{name}}}"
        for name, a in zip(parts, others, strict=True)
    ]
    new = expression(f"{{runner}}.run({text}{''.join(rest)})", runner=call.func.value, function=function.value, **parts)
    return [Replace(call, new)]
