"""HVD824 tensorflow-exchange: what each worker gets of the others' rows.

tf.distribute has neither an all-to-all nor a reduce-scatter. Small functions gather or reduce everything, and take this
worker's rows: the same values and gradients, for more memory and traffic, which a reviewer weighs.

Example:

```python
rows = hvd.reducescatter(tensor, op=hvd.Sum)
```

Use instead:

```python
rows = rows_of_worker(all_reduce_sum(tensor))
```
"""

from migrator.api import Context, Finding, Helper, RefusalError, Site, expression, rule

from .allreduce import FUNCTIONS
from .names import NO_PROCESS_SETS
from .options import is_one, options_of

SCATTERED = {
    "horovod.tensorflow.reducescatter": (
        "tensor", "device_dense", "compression", "op", "name", "process_set", "prescale_factor", "postscale_factor",
        "ignore_name_scope",
    ),
    "horovod.tensorflow.grouped_reducescatter": (
        "tensors", "device_dense", "compression", "op", "process_set", "prescale_factor", "postscale_factor",
        "ignore_name_scope",
    ),
    "horovod.keras.reducescatter": ("value", "name", "op", "prescale_factor", "postscale_factor"),
}  # fmt: skip
WHOLE = "every worker reduces the whole tensor and keeps its rows"


@rule("HVD824", "tensorflow-exchange", symbols=list(SCATTERED))
def reducescatter(site: Site, context: Context) -> Finding:
    parameters = SCATTERED[site.symbol]
    arguments = site.arguments(*parameters)
    if parameters[0] not in arguments:
        raise RefusalError("the call does not say what it reduces")
    options = options_of(arguments, site)
    scaled = not all(is_one(arguments.get(f"{when}scale_factor")) for when in ("pre", "post"))
    if scaled or options.told or options.operation not in FUNCTIONS:
        raise RefusalError("it scales, compresses or does more than add up: hvd.allreduce does so, then take the rows")
    function = FUNCTIONS[options.operation]
    text = f"rows_of_worker({function}({{value}}))"
    if parameters[0] == "tensors":
        text = f"[rows_of_worker({function}(tensor)) for tensor in {{value}}]"
    new = expression(text, value=arguments[parameters[0]])
    message = f"{site.short} → {site.preview(new)}: {WHOLE}"
    helpers = [Helper("tensorflow.rows_of_worker"), options.helper(function)]
    return site.replace(new, class_="review", message=message, helpers=helpers)


@rule("HVD824", "tensorflow-exchange", symbols=["horovod.tensorflow.alltoall"])
def alltoall(site: Site, context: Context) -> Finding:
    arguments = site.arguments("tensor", "splits", "name", "ignore_name_scope", "process_set")
    if "process_set" in arguments:
        raise RefusalError(NO_PROCESS_SETS)
    if "tensor" not in arguments:
        raise RefusalError("the call does not say what it sends")
    if "splits" not in arguments:
        raise RefusalError("rows are split evenly: give splits, and take the first of the two values returned")
    new = expression("all_to_all({tensor}, {splits})", **{n: arguments[n] for n in ("tensor", "splits")})
    message = f"alltoall → {site.preview(new)}: every worker gathers all rows and keeps its own"
    return site.replace(new, class_="review", message=message, helpers=["tensorflow.all_to_all"])
