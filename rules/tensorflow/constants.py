"""HVD803 tensorflow-constants: a compression becomes a dtype; operations are read where a call names them.

``Compression.fp16`` is the dtype in which values travel, and ``Compression.none`` is None. What ``op=hvd.Sum`` asks for
is in the function that takes the call's place: tf.distribute knows the sum and the mean, by name, so that an operation
that the program hands on otherwise has no counterpart.

Example:

```python
compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
```

Use instead:

```python
compression = tf.float16 if args.fp16_allreduce else None
```
"""

from migrator.api import Context, Finding, RefusalError, Site, cst, expression, rule

from .names import TF

COMPRESSIONS = {"none": ("None", []), "fp16": ("tf.float16", [TF])}
OPERATIONS = ("Average", "Sum", "Min", "Max", "Product", "Adasum")


@rule("HVD803", "tensorflow-constants", symbols=[f"horovod.tensorflow.Compression.{name}" for name in COMPRESSIONS])
def compression(site: Site, context: Context) -> Finding:
    if isinstance(site.module.index.parent(site.node), cst.Attribute) or site.call is not None:
        raise RefusalError(f"more is asked of Compression.{site.short} than to choose how values travel: cast them")
    value, imports = COMPRESSIONS[site.short]
    return site.replace(expression(value), imports=imports)


@rule("HVD803", "tensorflow-constants", symbols=["horovod.tensorflow.Compression"])
def compressions(site: Site, context: Context) -> Finding:
    raise RefusalError("the class of compressions is used as a value: name hvd.Compression.fp16 or none")


@rule("HVD803", "tensorflow-constants", symbols=[f"horovod.tensorflow.{name}" for name in OPERATIONS])
def operation(site: Site, context: Context) -> tuple[Finding, ...]:
    index = site.module.index
    argument = index.parent(site.node)
    call = index.parent(argument) if isinstance(argument, cst.Arg) else None
    if isinstance(call, cst.Call) and site.module.symbols.get(id(call.func), "").startswith("horovod."):
        return ()
    raise RefusalError(f"{site.short} is handed on as a value: write it into the calls that it is for")
