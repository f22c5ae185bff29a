"""HVD816 sync-batch-normalization: a layer of Keras that takes the statistics of all workers' batches.

Keras has ``BatchNormalization(synchronized=True)``, which does so in a strategy's scope only. A small class does what
Horovod's does: it averages the mean and the mean of squares of the workers' batches, in training.

Example:

```python
model.add(hvd.SyncBatchNormalization(axis=-1))
```

Use instead:

```python
model.add(SyncBatchNormalization(axis=-1))
```
"""

from migrator.api import Context, Finding, Helper, RefusalError, Site, expression, rule

from .names import keras_features

LAYER = "SyncBatchNormalization"


@rule("HVD816", "sync-batch-normalization", symbols=[f"horovod.tensorflow.{LAYER}"])
def sync_batch_normalization(site: Site, context: Context) -> Finding:
    if site.call is not None and any(a.keyword is not None and a.keyword.value == "fused" for a in site.call.args):
        raise RefusalError("the argument 'fused' goes: Horovod took False only, and Keras 3 does not know it")
    named = Site(site.symbol, site.node, None, site.module, site.scope, site.home, is_annotation=site.is_annotation)
    helper = Helper("tensorflow.sync_batch_normalization", keras_features(context))
    return named.replace(
        expression(LAYER), message=f"{LAYER} → a class of its own, with Keras's layer", helpers=[helper]
    )
