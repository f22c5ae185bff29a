"""HVD818 keras-scope: with ``--gradients scope``, Keras 2 itself distributes what follows ``hvd.init``.

The default uses TensorFlow's strategy for its collectives only. In its scope, Keras averages gradients, gives all
workers rank 0's weights when it makes them, and logs means over all workers. Data stay as they are: each worker trains
on what it reads, through ``distribute_datasets_from_function``, because Keras would share out every data set once more.
Values of BatchNormalization are read from all workers together, so each worker saves, all but the first into a
directory of their own.

Only programs that train by ``fit`` and do alike on all workers are migrated so, and only for Keras 2: Keras 3 fails in
``fit`` in such a scope. What else there is blocks the program, use by use; the default form takes it.

Example:

```python
if hvd.rank() == 0:
    model.save("model.h5")
```

Use instead:

```python
if rank() == 0:
    model.save("model.h5")
else:
    model.save(scratch_path("model.h5"))
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from migrator.api import (
    Class,
    Context,
    Drop,
    Edit,
    Finding,
    Import,
    Module,
    RefusalError,
    Remove,
    Replace,
    Site,
    cst,
    dotted_name,
    expression,
    planner,
    rule,
)

from ..launch.environment import VARIABLES
from ..values import calls_within, is_constant, is_zero
from .allreduce import PARAMETERS
from .applied import applied_by
from .names import INIT, OPTIMIZERS, TF
from .options import Arguments, is_one, operation_of, options_of
from .scope_rank import Claim, claims_of_rank
from .unwrapped import unwrapped

PLACE = "horovod.tensorflow.keras.scope"
CALLBACKS = "horovod.keras.callbacks"
BROADCAST = f"{CALLBACKS}.BroadcastGlobalVariablesCallback"
JOIN = "join_in_scope"
KNOWN = {
    INIT, *OPTIMIZERS, BROADCAST, f"{CALLBACKS}.MetricAverageCallback", f"{CALLBACKS}.LearningRateWarmupCallback",
    f"{CALLBACKS}.LearningRateScheduleCallback", "horovod.tensorflow.allreduce", "horovod.keras.allreduce",
    "horovod.tensorflow.keras.compile.experimental_run_tf_function", "horovod.run",
    *(
        f"horovod.tensorflow.{name}"
        for name in (
            "rank", "size", "local_rank", "local_size", "shutdown", "is_initialized", "Average", "Compression.none",
            "nccl_built", "cuda_built", "rocm_built", "gpu_available", "mpi_built", "mpi_enabled", "gloo_built",
            "mpi_threads_supported", "gloo_enabled", "ddl_built", "ccl_built",
        )
    ),
}  # fmt: skip
NOT_KERAS_2 = (
    "--gradients scope is for Keras 2, and nothing says that this is its Keras: say --keras 2, or leave it out"
)
KERAS_3 = "--gradients scope is for Keras 2: in such a scope Keras 3 fails in fit"
NO_FIT = "in a scope Keras averages gradients in fit only, and there is no fit in sight"
OTHER = "{name} is not known to do the same in a scope, where Keras averages: leave --gradients scope out"
ONE_MODEL = "in a scope Keras averages every model's gradients, and this one's optimizer is not seen to be wrapped"
ONLY_THE_MEAN = "in a scope Keras averages each batch's gradients as they are: leave --gradients scope out"
BY_ITSELF = "the program asks the optimizer for more than to be compiled: leave --gradients scope out"
TRAINED = (
    "each worker goes on training on what it reads, by distribute_datasets_from_function, and needs as many batches as "
    "the others; logs are means over all workers"
)
EVALUATED = "evaluate returns the mean over all workers; under Horovod it was this worker's own"
STATISTICS = (
    "the moving statistics become the mean of all workers' in a scope, in evaluation and in what is saved; under "
    "Horovod each worker had its own, and rank 0's were saved"
)
SHUFFLED = "fit draws other random numbers in a scope for the order of a Sequence's batches; shuffle=False keeps it"
LEAVE = "leave --gradients scope out"
UNREAD = (
    "{names}: not looked into, since Horovod is not named there; a training step, a loss that is no mean, or what one "
    "worker does to a model would go wrong in a scope, and BatchNormalization's statistics become means"
)
RANKS = {name for name, new in VARIABLES.items() if new.endswith("RANK")} | {"TF_CONFIG", "SLURM_PROCID"}
ALIKE = "values are rank 0's from the first batch on; Horovod gave them to the others after it"
AVERAGED = "logs are means over the rows of all workers in a scope, and no more means of the workers' means"
NOT_BROADCAST = "; all workers begin with rank 0's values, which nothing broadcast under Horovod"
REFUSED = {
    **dict.fromkeys(("predict", "predict_on_batch", "predict_generator"), "predict would gather what all workers have"),
    **dict.fromkeys(
        ("train_on_batch", "test_on_batch", "fit_generator", "evaluate_generator"),
        "only fit and evaluate are known to do the same in a scope",
    ),
    **dict.fromkeys(
        ("GradientTape", "apply_gradients", "minimize", "get_gradients", "compute_gradients"),
        "in a scope gradients are averaged by fit only",
    ),
    **dict.fromkeys(
        (
            "assign",
            "assign_add",
            "assign_sub",
            "set_weights",
            "load_weights",
            "load_model",
            "restore",
        ),
        "what one worker sets or loads does not reach the others in a scope",
    ),
    **dict.fromkeys(
        ("clear_session", "reset_default_graph", "Graph", "run_functions_eagerly"), "the scope would not outlast it"
    ),
    "stop_training": "a worker that stops by itself leaves the others waiting in a scope",
    "adapt": "adapt would take its part of the data once more in a scope",
    "distribute": "the program has a strategy of its own",
    **dict.fromkeys(("SUM", "NONE"), "Keras divides a loss by the number of workers only where it is a mean"),
    **dict.fromkeys(("LossScaleOptimizer", "experimental_run_v2"), "it is not known to do the same in a scope"),
}
METHODS = ("train_step", "test_step", "make_train_function", "make_test_function", "compute_loss")
ARGUMENTS = {
    "steps_per_execution": "1",
    "run_eagerly": "False",
    "jit_compile": "False",
    "use_ema": "False",
    "gradient_transformers": "None",
    "gradient_aggregator": "None",
    "experimental_aggregate_gradients": "True",
    "skip_gradients_aggregation": "False",
    "histogram_freq": "0",
}
REDUCTIONS = ("auto", "sum_over_batch_size")
FITTING = {"epochs", "steps_per_epoch", "callbacks", "validation_data", "batch_size"}


@dataclass(frozen=True, eq=False)
class InScope:
    """What there is to say of a place in a program that Keras is to distribute."""

    site: Site
    finding: Finding


def is_in_scope(context: Context) -> bool:
    """Whether Keras is to distribute the program."""
    return context.settings.gradients == "scope"


@rule("HVD818", "keras-scope", symbols=[PLACE])
def place(site: Site, context: Context) -> Finding:
    return next(plan.finding for plan in context.plan(InScope) if plan.site is site)


@planner
def plan_scope(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Look for all that a scope changes or does not allow."""
    sites = [s for s in context.sites if s.symbol.startswith(("horovod.tensorflow", "horovod.keras"))]
    if not is_in_scope(context) or not sites:
        return (), ()
    claims = {(id(c.node), id(c.at), c.message): (c, module) for c, module in _claims(context, sites)}
    plans = [_claimed(*claim) for claim in claims.values()]
    return plans, [plan.site for plan in plans]


def _claimed(claim: Claim, module: Module) -> InScope:
    site = Site(PLACE, claim.node, None, module, module.index.scope_of(claim.node), module.index.scope)
    helpers = [f"tensorflow.{name}" for name in claim.helpers]
    return InScope(site, site.found(claim.class_, claim.message, claim.edits, helpers=helpers, node=claim.at))


def _claims(context: Context, sites: list[Site]) -> Iterator[tuple[Claim, Module]]:
    start = next(iter(context.uses(INIT)), sites[0])
    if context.settings.keras != "2":
        yield Claim(start.target, "blocked", KERAS_3 if context.settings.keras == "3" else NOT_KERAS_2), start.module
        return
    for site in context.sites:
        if site.symbol not in KNOWN:
            yield Claim(site.target, "blocked", OTHER.format(name=site.short)), site.module
        elif site.symbol in PARAMETERS and not _is_mean(site):
            yield Claim(site.target, "blocked", "only the mean is known to do the same in a scope"), site.module
    if not any(module.index.attributes["fit"] for module in context.modules):
        yield Claim(start.target, "review", NO_FIT), start.module
    for module in context.modules:
        yield from ((claim, module) for claim in (*_attributes(module), *_calls(module), *_trained(module, context)))
    yield from claims_of_rank(context)
    if names := sorted(_unread(context)):
        yield Claim(start.target, "review", UNREAD.format(names=", ".join(names))), start.module


def _unread(context: Context) -> Iterator[str]:
    """The files of the project that the program imports and that are not part of it, by their names."""
    read = {part for module in context.modules for part in PurePath(module.path).with_suffix("").parts[-2:]}
    names = {name for module in context.modules for name in module.project}
    yield from (name for name in names if name.rpartition(".")[2] not in read)


def _is_mean(site: Site) -> bool:
    try:
        arguments = site.arguments(*PARAMETERS[site.symbol])
        return operation_of(arguments, site) == "Average" and not options_of(arguments, site).told
    except RefusalError:
        return False


def _attributes(module: Module) -> Iterator[Claim]:
    for name, reason in REFUSED.items():
        for node in [*module.index.attributes[name], *_called(name, module)]:
            if name not in ("SUM", "NONE") or "Reduction" in module.source(node):
                yield Claim(node, "blocked", f"{reason}: {LEAVE}")
    for definition in module.functions.named(*METHODS):
        if definition.module is module:
            method = definition.function.name
            message = f"{method.value} is a training of one's own: leave --gradients scope out"
            yield Claim(method, "blocked", message, at=definition.function)
    layers = ("BatchNormalization", "applications")
    nodes = [n for name in layers for n in module.index.attributes[name]]
    yield from (Claim(node, "review", STATISTICS) for node in nodes)
    yield from (Claim(node, "review", STATISTICS) for node in _called("BatchNormalization", module))
    for string in module.index.strings:
        if string.raw_value in RANKS:
            yield Claim(string, "blocked", f"what the rank decides here is not in sight: {LEAVE}")
    sequences = [*module.index.attributes["Sequence"], *_called("Sequence", module)]
    yield from (Claim(node, "review", SHUFFLED) for node in sequences)


def _called(name: str, module: Module) -> Iterator[cst.BaseExpression]:
    """Where ``name`` is called or inherited from."""
    for reference in module.index.references[name]:
        holder = module.index.parent(reference.node)
        is_base = isinstance(holder, cst.Arg) and isinstance(module.index.parent(holder), cst.ClassDef)
        if is_base or (isinstance(holder, cst.Call) and holder.func is reference.node):
            yield reference.node


def _calls(module: Module) -> Iterator[Claim]:
    """Arguments that change what Keras does in a scope."""
    for call in calls_within(module.index.tree):
        for argument in call.args:
            name = argument.keyword.value if argument.keyword is not None else ""
            text = module.source(argument.value).strip("\"' ").rpartition(".")[2].lower()
            is_loss = not name and "losses." in dotted_name(call.func)
            if name in ARGUMENTS and not is_constant(argument.value, ARGUMENTS[name]):
                yield Claim(argument.value, "blocked", f"{name} is not known to do the same in a scope: leave it out")
            elif (name == "reduction" or (is_loss and text in ("sum", "none"))) and text not in REDUCTIONS:
                yield Claim(argument.value, "blocked", f"{REFUSED['SUM']}: {LEAVE}")
            elif text in ("mixed_float16", "mixed_bfloat16") and isinstance(argument.value, cst.SimpleString):
                yield Claim(argument.value, "blocked", "mixed precision is not known to do the same in a scope")


def _trained(module: Module, context: Context) -> Iterator[Claim]:
    index = module.index
    for name, message in (("fit", TRAINED), ("evaluate", EVALUATED)):
        for node in index.attributes[name]:
            call = index.parent(node)
            told = (
                {a.keyword.value for a in call.args if a.keyword is not None} if isinstance(call, cst.Call) else set()
            )
            if name != "fit" or told & FITTING or not any(index.attributes["fit"][1:]):
                yield Claim(node, "review", message)
    wrapped = {id(c) for s in context.sites if s.symbol in OPTIMIZERS for c in applied_by(s, context).compiled}
    for node in index.attributes["compile"]:
        call = index.parent(node)
        if id(call) not in wrapped and dotted_name(node.value) != "re":
            yield Claim(node, "blocked", ONE_MODEL)


def join(context: Context) -> str:
    """The function that joins workers."""
    return JOIN if is_in_scope(context) else "join_workers"


def unwrapped_optimizer(arguments: Arguments, site: Site, context: Context) -> Finding:
    """The optimizer without Horovod's wrapper: in a scope, Keras averages."""
    options, applied = options_of(arguments, site), applied_by(site, context)
    factors = [arguments.get(name) for name in ("backward_passes_per_step", "gradient_predivide_factor")]
    is_plain = options.operation == "Average" and not options.told and all(map(is_one, factors))
    if not is_plain or "scale_local_gradients" in arguments:
        raise RefusalError(ONLY_THE_MEAN)
    if applied.by_program or applied.computed or not applied.by_keras:
        raise RefusalError(BY_ITSELF)
    message = f"{site.short} goes: Keras averages gradients in the scope"
    is_alike = bool(context.uses(BROADCAST))
    class_: Class = "exact" if is_alike else "review"
    edit = unwrapped(arguments["optimizer"], site)
    return site.found(class_, message + ("" if is_alike else NOT_BROADCAST), [edit])


def without_callback(site: Site, root: cst.BaseExpression | None = None) -> Finding:
    """No callback where a scope does what it did, or one that does nothing where it is not just listed."""
    if not is_zero(root):
        raise RefusalError("in a scope all workers begin with rank 0's values: leave --gradients scope out")
    edits, imports = _taken_out(site)
    if site.symbol == BROADCAST:
        return site.found("review", f"{site.short} goes: {ALIKE}", edits, imports=imports)
    message = f"{site.short} goes: {AVERAGED}"
    return site.found("review", message, edits, imports=imports)


def _taken_out(site: Site) -> tuple[list[Edit], list[Import]]:
    index = site.module.index
    holder = index.parent(site.target)
    if isinstance(holder, cst.Element) and isinstance(index.parent(holder), cst.List):
        return [Drop(holder)], []
    call = index.parent(holder) if isinstance(holder, cst.Arg) else None
    if (
        isinstance(call, cst.Call)
        and isinstance(index.parent(call), cst.Expr)
        and dotted_name(call.func).endswith(".append")
        and site.statement is not None
    ):
        return [Remove(site.statement)], []
    return [Replace(site.target, expression("tf.keras.callbacks.Callback()"))], [TF]
