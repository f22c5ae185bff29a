"""HVD508 repeated-function: a function that trains nothing with gradients was repeated, not distributed.

Horovod distributes one thing: the training of a network, by averaging gradients. A function that fits scikit-learn's
models, or computes, was run whole by every worker, on whatever data it read itself. The new launcher does the same;
what was meant is more likely Spark's own: a DataFrame's operations, ``pyspark.ml``, or a trial for each task.

Example:

```python
HorovodRunner(np=4).run(fit_forest)
```

Use instead:

```python
from pyspark.ml.classification import RandomForestClassifier

model = RandomForestClassifier(labelCol="label").fit(frame)
```
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from migrator.api import Context, Finding, Module, Site, planner, rule

from .names import LAUNCHERS

REPEATED = "launcher.repeated"
WITHOUT_GRADIENTS = frozenset(
    {"sklearn", "xgboost", "lightgbm", "catboost", "statsmodels", "prophet", "h2o", "hyperopt"}
)
WITH_GRADIENTS = frozenset({"torch", "tensorflow", "keras", "mxnet", "pytorch_lightning", "lightning", "jax"})


@planner
def plan_repeated(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the launchers of a program that has nothing to train by gradients, where all of it is in sight."""
    starts = [site for symbol in LAUNCHERS for site in context.uses(symbol) if site.call is not None]
    imported = {name for module in context.modules for name in _imports(module)}
    if imported & WITH_GRADIENTS or not imported & WITHOUT_GRADIENTS or any(m.project for m in context.modules):
        return (), ()
    others = [site for site in context.sites if site.symbol not in LAUNCHERS]
    return (), [] if others else [replace(site, symbol=REPEATED) for site in starts]


def _imports(module: Module) -> set[str]:
    scopes = (module.index.scope, *module.index.scopes.values())
    bindings = [b for scope in scopes for found in scope.bindings.values() for b in found]
    return {binding.symbol.partition(".")[0] for binding in bindings if binding.symbol}


@rule("HVD508", "repeated-function", symbols=[REPEATED])
def repeated(site: Site, context: Context) -> Finding:
    message = "nothing here trains by gradients: every worker runs the whole function, so that work is repeated"
    return site.found(
        "review", f"{message}, not distributed; pyspark.ml, or a Spark task for each trial, distributes it"
    )
