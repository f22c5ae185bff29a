"""HVD802 worker-rank: the number of a worker, and how many there are, come from the strategy.

Both join the workers if that was not done yet; Horovod raised then. Arithmetic with them, such as a learning rate that
grows with the number of workers, stays as it is written.

Example:

```python
data = data.shard(hvd.size(), hvd.rank())
```

Use instead:

```python
data = data.shard(size(), rank())
```
"""

from migrator.api import Context, Finding, RefusalError, Site, expression, rule

from .names import OS, TF

OPERATIONS = {
    "horovod.tensorflow.rank_op": ("rank()", [], ["tensorflow.rank"]),
    "horovod.tensorflow.size_op": ("size()", [], ["tensorflow.size"]),
    "horovod.tensorflow.local_rank_op": ('int(os.environ.get("LOCAL_RANK", 0))', [OS], []),
    "horovod.tensorflow.local_size_op": ('int(os.environ.get("LOCAL_WORLD_SIZE", 1))', [OS], []),
}


@rule("HVD802", "worker-rank", symbols=["horovod.tensorflow.rank", "horovod.tensorflow.size"])
def rank_and_size(site: Site, context: Context) -> Finding:
    if site.call is not None and site.call.args:
        raise RefusalError(f"{site.short} takes no arguments")
    call = "" if site.call is None else "()"
    return site.replace(expression(f"{site.short}{call}"), helpers=[f"tensorflow.{site.short}"])


@rule("HVD802", "worker-rank", symbols=list(OPERATIONS))
def as_operation(site: Site, context: Context) -> Finding:
    """HVD802 worker-rank: rank and size as tensors."""
    if site.call is None:
        raise RefusalError(f"{site.short} is passed on as a value")
    site.arguments("process_set_id", "name") if site.short == "size_op" else site.arguments("name")
    text, imports, helpers = OPERATIONS[site.symbol]
    return site.replace(expression(f"tf.constant({text})"), imports=[TF, *imports], helpers=helpers)
