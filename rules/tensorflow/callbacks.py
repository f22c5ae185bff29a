"""HVD813 keras-callbacks: callbacks become plain Keras callbacks that do the same, at the same moments.

``BroadcastGlobalVariablesCallback`` gives all workers the weights and the optimizer's state of one, after the first
batch, not before it; ``MetricAverageCallback`` averages the logs of an epoch for the callbacks behind it in the list,
and for the history. Both are Horovod's behaviour, observed.

Example:

```python
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
```

Use instead:

```python
callbacks = [BroadcastWeights(), AverageMetrics()]
```
"""

from __future__ import annotations

from migrator.api import Context, Finding, Helper, RefusalError, Site, cst, expression, rule

from .names import keras_features
from .scope import is_in_scope, without_callback

BROADCAST = "horovod.keras.callbacks.BroadcastGlobalVariablesCallback"
AVERAGE = "horovod.keras.callbacks.MetricAverageCallback"


@rule("HVD813", "keras-callbacks", symbols=[BROADCAST])
def broadcast_weights(site: Site, context: Context) -> Finding:
    arguments = site.arguments("root_rank", "device", "local_variables")
    if "local_variables" in arguments:
        raise RefusalError("some variables stay with each worker, which is not migrated yet")
    root = arguments.get("root_rank")
    if is_in_scope(context):
        return without_callback(site, root)
    if root is None or (isinstance(root, cst.Integer) and root.evaluated_value == 0):
        new = expression("BroadcastWeights()")
    else:
        new = expression("BroadcastWeights({root})", root=root)
    return site.replace(new, helpers=[Helper("tensorflow.broadcast_weights", keras_features(context))])


@rule("HVD813", "keras-callbacks", symbols=[AVERAGE])
def average_metrics(site: Site, context: Context) -> Finding:
    site.arguments("device")
    if is_in_scope(context):
        return without_callback(site)
    return site.replace(expression("AverageMetrics()"), helpers=["tensorflow.average_metrics"])
