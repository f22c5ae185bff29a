"""HVD814 learning-rate-callbacks: warm-up and schedule become plain callbacks with the same sequence of rates.

The warm-up begins near ``initial_lr`` over the number of workers and ends at ``initial_lr``, batch by batch. Horovod
also corrects the momentum for each batch, which works with Keras's legacy optimizers only: in the others momentum is a
number that is built in, with which Horovod itself fails. The callback corrects it where it can.

Example:

```python
hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.1, warmup_epochs=3)
```

Use instead:

```python
LearningRateWarmup(initial_lr=0.1, warmup_epochs=3)
```
"""

from __future__ import annotations

from migrator.api import Context, Finding, Helper, RefusalError, Site, cst, expression, rule

from .names import keras_features

CLASSES = {
    "horovod.keras.callbacks.LearningRateWarmupCallback": ("LearningRateWarmup", "learning_rate_warmup"),
    "horovod.keras.callbacks.LearningRateScheduleCallback": ("LearningRateSchedule", "learning_rate_schedule"),
}
NO_RATE = "initial_lr is missing, which Horovod demands since 0.21: give it the learning rate of the optimizer"
MOMENTUM = "momentum is corrected where it is a variable, in legacy optimizers; elsewhere it stays as it is"


@rule("HVD814", "learning-rate-callbacks", symbols=list(CLASSES))
def learning_rate(site: Site, context: Context) -> Finding:
    if site.call is not None and not _says_rate(site.call):
        raise RefusalError(NO_RATE)
    name, helper = CLASSES[site.symbol]
    new = expression(name)
    helpers = [Helper(f"tensorflow.{helper}", keras_features(context))]
    message = f"{site.short} → {name}"
    edited = Site(site.symbol, site.node, None, site.module, site.scope, site.home)
    if site.call is not None and _corrects(site.call):
        return edited.replace(new, class_="review", message=f"{message}; {MOMENTUM}", helpers=helpers)
    return edited.replace(new, message=message, helpers=helpers)


def _says_rate(call: cst.Call) -> bool:
    return any(a.keyword is None or a.star or a.keyword.value == "initial_lr" for a in call.args)


def _corrects(call: cst.Call) -> bool:
    """Whether the momentum is corrected, as it is by default."""
    given = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    value = given.get("momentum_correction")
    return not (isinstance(value, cst.Name) and value.value == "False")
