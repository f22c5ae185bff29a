"""HVD822 tensorflow-allgather: the tensors, or objects, of all workers.

Tensors come one behind another in the order of the workers, and their first dimensions may differ, as under Horovod. A
gradient through them is the mean of what the workers have for a worker's part, as Horovod's is; tf.distribute's own is
the sum.

Example:

```python
predictions = hvd.allgather(predictions)
```

Use instead:

```python
predictions = all_gather_cat(predictions)
```
"""

from migrator.api import Context, Finding, RefusalError, Site, expression, rule

from .names import NO_PROCESS_SETS, NO_SESSIONS

TENSORS = {
    "horovod.tensorflow.allgather": ("tensor", "name", "ignore_name_scope", "process_set"),
    "horovod.keras.allgather": ("value", "name"),
}
GROUPED = "horovod.tensorflow.grouped_allgather"


@rule("HVD822", "tensorflow-allgather", symbols=list(TENSORS))
def allgather(site: Site, context: Context) -> Finding:
    return _gathered(site, TENSORS[site.symbol], "all_gather_cat({value})", "all_gather_cat")


@rule("HVD822", "tensorflow-allgather", symbols=[GROUPED])
def grouped_allgather(site: Site, context: Context) -> Finding:
    text = "[all_gather_cat(tensor) for tensor in {value}]"
    return _gathered(site, ("tensors", "name", "ignore_name_scope", "process_set"), text, "all_gather_cat")


@rule("HVD822", "tensorflow-allgather", symbols=["horovod.tensorflow.allgather_object"])
def allgather_object(site: Site, context: Context) -> Finding:
    return _gathered(site, ("obj", "session", "name", "process_set"), "all_gather_object({value})", "all_gather_object")


def _gathered(site: Site, parameters: tuple[str, ...], text: str, helper: str) -> Finding:
    arguments = site.arguments(*parameters)
    if parameters[0] not in arguments:
        raise RefusalError("the call does not say what it gathers")
    if "process_set" in arguments:
        raise RefusalError(NO_PROCESS_SETS)
    if "session" in arguments:
        raise RefusalError(NO_SESSIONS)
    return site.replace(expression(text, value=arguments[parameters[0]]), helpers=[f"tensorflow.{helper}"])
