"""HVD811 keras-optimizer: the optimizer averages gradients over all workers before it applies them.

Horovod makes a new optimizer of the given one's class and settings; a small function changes the given one instead,
or a copy where the program uses that one besides. It reduces where ``fit`` has the optimizer compute gradients (Keras
2) or apply them (Keras 3). Loss, clipping and learning rate stay as they are: Horovod clips the mean, and so does
this. In Keras 2 an embedding's gradient stays sparse, as under Horovod, unless ``sparse_as_dense`` was asked for;
Keras 3 does not add up duplicate rows of one, so there it becomes dense. With ``backward_passes_per_step`` the
gradients of so many batches are added up, and then applied; ``average_aggregated_gradients`` divides them.

Horovod's optimizer averages in ``fit`` and ``minimize`` only. Where the program computes gradients itself and calls
``apply_gradients``, it never averaged them: the wrapper goes, and the finding says that each worker trains alone unless
a tape averages.

Example:

```python
optimizer = hvd.DistributedOptimizer(optimizer)
```

Use instead:

```python
optimizer = average_gradients(optimizer)
```
"""

from __future__ import annotations

from collections.abc import Iterator

from migrator.api import Context, Finding, RefusalError, Site, Template, cst, expression, rule

from ..values import is_constant, symbol_of
from .applied import Applied, applied_by
from .keras_3 import SCALED_OUTSIDE, is_scaled_by_compile, is_scaled_outside, limits
from .names import OPTIMIZERS, TAPE, TF, keras_features
from .options import OPERATIONS, Arguments, Options, is_one, options_of
from .scope import is_in_scope, unwrapped_optimizer
from .unwrapped import unwrapped

PARAMETERS = {
    "horovod.keras.DistributedOptimizer": (
        "optimizer", "name", "device_dense", "device_sparse", "compression", "sparse_as_dense",
        "gradient_predivide_factor", "op", "backward_passes_per_step", "average_aggregated_gradients", "num_groups",
        "groups", "process_set", "scale_local_gradients",
    ),
    "horovod.tensorflow.DistributedOptimizer": (
        "optimizer", "name", "use_locking", "device_dense", "device_sparse", "compression", "sparse_as_dense",
        "backward_passes_per_step", "op", "gradient_predivide_factor", "average_aggregated_gradients", "num_groups",
        "groups", "process_set", "scale_local_gradients",
    ),
}  # fmt: skip
ONLY_SUM_AND_MEAN = "gradients are added up or averaged: Horovod's optimizers know nothing else either"
# horovod.tensorflow hands Keras's optimizers on to horovod.tensorflow.keras, without op. Observed.
IGNORING = "horovod.tensorflow.DistributedOptimizer"
FUNCTIONS = {"Average": "average_gradients", "Sum": "sum_gradients"}
ACCUMULATING = {"Average": "accumulate_gradients", "Sum": "accumulate_summed_gradients"}
UNAVERAGED = (
    "Horovod averages in fit and minimize only, and never averaged these gradients: each worker trains alone, now as "
    "then; average them with hvd.DistributedGradientTape, if that was meant"
)
BY_TAPE = "Horovod's wrapper did nothing here: what DistributedGradientTape computes is averaged, and nothing else"
BOTH = (
    "fit averages the gradients of this optimizer, and the program also applies some itself, which Horovod never "
    "averaged: give it one of the two to do"
)
PERHAPS = "if this is the optimizer that Horovod wraps: it never averaged what apply_gradients is given"


@rule("HVD811", "keras-optimizer", symbols=list(OPTIMIZERS))
def distributed_optimizer(site: Site, context: Context) -> tuple[Finding, ...]:
    arguments = site.arguments(*PARAMETERS[site.symbol])
    if "optimizer" not in arguments:
        raise RefusalError("the call does not say which optimizer it wraps")
    asked = _read(arguments, site)
    if is_in_scope(context):
        return (unwrapped_optimizer(asked, site, context),)
    options = options_of(asked, site)
    if options.operation not in FUNCTIONS:
        raise RefusalError(ONLY_SUM_AND_MEAN)
    if context.settings.keras != "2" and is_scaled_outside(site):
        raise RefusalError(SCALED_OUTSIDE)
    applied = applied_by(site, context)
    if applied.by_program and not applied.by_keras:
        return _unwrapped(arguments["optimizer"], applied, site, context)
    if applied.by_program and context.settings.keras != "2":
        raise RefusalError(BOTH)
    perhaps = [site.found("review", PERHAPS, node=node) for node in applied.perhaps]
    if context.settings.keras != "2":
        perhaps += limits(applied, site)
    return _wrapped(arguments, options, site, context), *perhaps


def _read(arguments: Arguments, site: Site) -> Arguments:
    """The arguments that Horovod reads: of a Keras optimizer, horovod.tensorflow reads ``op`` to refuse Adasum only."""
    if site.symbol != IGNORING or _operation(arguments, site) == "Adasum":
        return arguments
    return {name: node for name, node in arguments.items() if name != "op"}


def _operation(arguments: Arguments, site: Site) -> str | None:
    return OPERATIONS.get(symbol_of(arguments["op"], site.module)) if "op" in arguments else "Average"


def _unwrapped(optimizer: cst.BaseExpression, applied: Applied, site: Site, context: Context) -> tuple[Finding, ...]:
    reason = BY_TAPE if context.uses(TAPE) else UNAVERAGED
    message = f"{site.short} goes: the program applies gradients itself"
    if not applied.directly:
        message = f"{message}; {reason}"
    gone = site.found("review", message, [unwrapped(optimizer, site)])
    return gone, *(site.found("review", reason, node=node) for node in applied.directly)


def _wrapped(arguments: Arguments, options: Options, site: Site, context: Context) -> Finding:
    helper = FUNCTIONS[options.operation]
    told = dict(options.told)
    if not is_one(arguments.get("backward_passes_per_step")):
        helper = ACCUMULATING[options.operation]
        told.pop("sparse_as_dense", None)
        told = {**_accumulation(arguments), **told}
    optimizer = _own(arguments["optimizer"], site, context)
    keywords = "".join(f", {name}={{{name}}}" for name in told)
    new = Template(f"{helper}({optimizer.text}{keywords})", {**optimizer.parts, **told})
    file = "average_gradients" if helper in FUNCTIONS.values() else "accumulate_gradients"
    notes = list(_notes(arguments, site))
    return site.replace(
        new,
        class_="review" if notes else "exact",
        message="; ".join([f"{site.short} → {site.preview(new)}", *notes]),
        imports=[TF] if "tf." in new.text else [],
        helpers=[options.helper(file, keras_features(context))],
    )


def _accumulation(arguments: Arguments) -> Arguments:
    names = ("backward_passes_per_step", "average_aggregated_gradients")
    return {n: arguments[n] for n in names if n in arguments and not is_constant(arguments[n], "False")}


def _own(optimizer: cst.BaseExpression, site: Site, context: Context) -> Template:
    """The optimizer to change: a copy, as Horovod makes one, where the given one is used besides.

    In Keras 3 the loss scale that ``compile`` would put around it must be inside, to see the averaged gradients.
    """
    if context.settings.keras != "2" and is_scaled_by_compile(site, context):
        return expression("tf.keras.mixed_precision.LossScaleOptimizer({o})", o=optimizer)
    if _is_used_besides(optimizer, site):
        return expression("type({o}).from_config({o}.get_config())", o=optimizer)
    return expression("{o}", o=optimizer)


def _is_used_besides(optimizer: cst.BaseExpression, site: Site) -> bool:
    target = site.assigned_to
    if not isinstance(optimizer, cst.Name) or (isinstance(target, cst.Name) and target.value == optimizer.value):
        return False
    home = site.scope.home(optimizer.value)
    uses = [r.node for r in site.module.index.references[optimizer.value] if r.scope.home(optimizer.value) is home]
    return any(site.module.index.before(site.target, use) and use is not optimizer for use in uses)


def _notes(arguments: Arguments, site: Site) -> Iterator[str]:
    if site.symbol == IGNORING and _operation(arguments, site) != "Average":
        yield "Horovod ignores op here and averages; horovod.tensorflow.keras has a DistributedOptimizer that does not"
    if not is_one(arguments.get("gradient_predivide_factor")):
        yield "gradient_predivide_factor goes: the last digits can differ"
