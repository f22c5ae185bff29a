"""HVD553 ray-executor: a RayExecutor becomes the ScalingConfig of a TorchTrainer, its runs trainers of their own.

``TorchTrainer(train, ...).fit()`` starts workers, joins them, runs the function and stops them, which ``start()`` and
``shutdown()`` did. It wants a function without arguments, or with one for ``train_loop_config``; where the value of
``run`` is used, a small function returns the list with the result of each rank, as for ``execute`` and
``ray.get(run_remote(...))``. Ray Train keeps no workers between two runs, has no class that lives in them, and works
in a folder of its own, so relative paths mean something else.

What says how Horovod starts (``timeout_s``, ssh, interfaces) goes; arguments of elastic jobs are explained.

Example:

```python
executor = RayExecutor(RayExecutor.create_settings(timeout_s=30), num_workers=4, use_gpu=True)
executor.start()
executor.run(train, kwargs={"epochs": 3})
executor.shutdown()
```

Use instead:

```python
scaling_config = ScalingConfig(num_workers=4, use_gpu=True)
TorchTrainer(lambda config: train(**config), train_loop_config={"epochs": 3}, scaling_config=scaling_config).fit()
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from migrator.api import Context, Edit, Finding, RefusalError, Remove, Replace, Site, cst, expression, rule

from .executor_plan import Executor, Executors
from .members import arguments_of, waiting
from .names import EXECUTOR, SCALING_CONFIG, TORCH_TRAINER
from .scaling import NAMES, scaling

FOLDER = "workers run in a folder of Ray Train's: make paths absolute"


@rule("HVD553", "ray-executor", symbols=[EXECUTOR])
def ray_executor(site: Site, context: Context) -> Finding:
    if site.is_annotation:
        return site.replace(expression("ScalingConfig"), imports=[SCALING_CONFIG])
    if site.call is None:
        raise RefusalError("RayExecutor is passed on as a value, so how many workers it starts is not known")
    executor = _executor(site, context)
    new, notes = scaling(site.arguments(*NAMES))
    edits: list[Edit] = [Replace(site.call, new)]
    if isinstance(site.assigned_to, cst.Name) and site.assigned_to.value != executor.name:
        edits.append(Replace(site.assigned_to, expression(executor.name)))
    message = "; ".join([f"RayExecutor → {site.preview(new)}, with which Ray Train starts the workers", *notes])
    return site.found("review", message, edits, imports=[SCALING_CONFIG])


def _executor(site: Site, context: Context) -> Executor:
    return next(context.plan(Executors)).of(site)


@rule("HVD553", "ray-executor", symbols=[f"{EXECUTOR}.start", f"{EXECUTOR}.shutdown"])
def start_and_shutdown(site: Site, context: Context) -> Finding:
    _executor(site, context)
    what = "starts" if site.short == "start" else "stops"
    edits = [Remove(site.statement)] if site.statement is not None else []
    return site.found("exact", f"{site.short} goes: TorchTrainer {what} the workers itself", edits)


@rule("HVD553", "ray-executor", symbols=[f"{EXECUTOR}.run"])
def run(site: Site, context: Context) -> Finding:
    executor = _executor(site, context)
    arguments = arguments_of(site)
    text, parts = _trainer(site, arguments, executor.name)
    if not text:
        return _listed(site, arguments, executor)
    message = "; ".join(["run → TorchTrainer(…).fit(), which raises where a worker fails", *_notes(executor)])
    return site.replace(expression(text, **parts), class_="review", message=message, imports=[TORCH_TRAINER])


@rule("HVD553", "ray-executor", symbols=[f"{EXECUTOR}.execute"])
def execute(site: Site, context: Context) -> Finding:
    executor = _executor(site, context)
    return _listed(site, arguments_of(site), executor, "args=[None]")


@rule("HVD553", "ray-executor", symbols=[f"{EXECUTOR}.run_remote"])
def run_remote(site: Site, context: Context) -> Finding:
    executor = _executor(site, context)
    call = waiting(site)
    return _listed(replace(site, node=call.func, call=call), arguments_of(site), executor)


@rule("HVD553", "ray-executor", symbols=[f"{EXECUTOR}.*"])
def other(site: Site, context: Context) -> Finding:
    raise RefusalError(next(context.plan(Executors)).refused[id(site.node)])


def _listed(site: Site, arguments: Mapping[str, cst.BaseExpression], executor: Executor, *more: str) -> Finding:
    """The list of what each rank returns."""
    names = [f"{name}={{{name}}}" for name in ("args", "kwargs") if name in arguments]
    new = expression(f"run_on_ray({', '.join(['{fn}', executor.name, *names, *more])})", **arguments)
    what = "which returns the list of results" if not site.is_discarded else "which passes the arguments on"
    message = "; ".join([f"{site.short} → run_on_ray(), {what}", *_notes(executor)])
    return site.replace(new, class_="review", message=message, helpers=["run_on_ray"])


def _notes(executor: Executor) -> list[str]:
    again = ["each run starts workers anew: nothing is left in them"] if len(executor.runs) > 1 else []
    return [FOLDER, *again]


def _trainer(
    site: Site, arguments: Mapping[str, cst.BaseExpression], scaling_config: str
) -> tuple[str, Mapping[str, cst.BaseExpression]]:
    """The code of a trainer where nobody asks for the results and it can be given the arguments as they are."""
    function, named = arguments["fn"], isinstance(arguments["fn"], cst.Name)
    if not site.is_discarded or "args" in arguments or not (named or _takes_nothing(function, site)):
        return "", {}
    if "kwargs" in arguments:
        text = "TorchTrainer(lambda config: {fn}(**config), train_loop_config={kwargs}, "
    else:
        text = "TorchTrainer({fn}, " if _takes_nothing(function, site) else "TorchTrainer(lambda: {fn}(), "
    return f"{text}scaling_config={scaling_config}).fit()", arguments


def _takes_nothing(function: cst.BaseExpression, site: Site) -> bool:
    """Whether the function is in sight and has no parameter, to which Ray Train would hand its configuration."""
    bindings = site.scope.lookup(function.value) if isinstance(function, cst.Name) else ()
    found = [binding.node for binding in bindings if isinstance(binding.node, cst.FunctionDef)]
    if isinstance(function, cst.Lambda):
        return _is_empty(function.params)
    return len(bindings) == 1 and bool(found) and not found[0].decorators and _is_empty(found[0].params)


def _is_empty(signature: cst.Parameters) -> bool:
    parameters = (*signature.params, *signature.kwonly_params, *signature.posonly_params, signature.star_kwarg)
    return not any(parameters) and not isinstance(signature.star_arg, cst.Param)
