"""HVD206 constants: compression and reduce operations become what torch.distributed calls them.

Compression is the dtype in which gradients travel, or None; a reduce operation is a ``dist.ReduceOp``. Adasum has no
counterpart: where it is one choice of a flag, the program raises a clear error when the flag asks for it.

Example:

```python
compression = hvd.Compression.fp16 if args.fp16 else hvd.Compression.none
```

Use instead:

```python
compression = torch.float16 if args.fp16 else None
```
"""

from migrator.api import Context, Finding, RefusalError, Remove, Site, cst, expression, rule

from .adasum import raising
from .names import DIST, TORCH
from .options import NO_ADASUM
from .plan import Plan

OPERATIONS = {"Average": "AVG", "Sum": "SUM", "Min": "MIN", "Max": "MAX", "Product": "PRODUCT"}
COMPRESSIONS = {"none": ("None", []), "fp16": ("torch.float16", [TORCH])}


@rule("HVD206", "constants", symbols=[f"horovod.torch.{name}" for name in OPERATIONS])
def reduce_operation(site: Site, context: Context) -> Finding:
    return site.replace(expression(f"dist.ReduceOp.{OPERATIONS[site.short]}"), imports=[DIST])


@rule("HVD206", "constants", symbols=[f"horovod.torch.Compression.{name}" for name in COMPRESSIONS])
def compression(site: Site, context: Context) -> Finding:
    holder = site.module.index.parent(site.node)
    if isinstance(holder, cst.Attribute) or site.call is not None:
        raise RefusalError(f"more is asked of Compression.{site.short} than to choose how gradients travel")
    if isinstance(holder, cst.Arg) and isinstance(site.module.index.parent(holder), cst.ClassDef):
        raise RefusalError(
            f"a class is derived from Compression.{site.short}: a communication hook of DDP takes what it does"
        )
    if site.short == "none" and site.statement is not None and _goes_unused(site, context):
        message = "none goes with the argument that it was: gradients travel as they are"
        return site.found("exact", message, [Remove(site.statement)])
    value, imports = COMPRESSIONS[site.short]
    return site.replace(expression(value), imports=imports)


def _goes_unused(site: Site, context: Context) -> bool:
    """Whether the value only has a name that is handed to wrappers, whose replacements do without it."""
    target, index = site.assigned_to, site.module.index
    if not isinstance(target, cst.Name) or len(site.scope.target(target.value).bindings[target.value]) != 1:
        return False
    home = site.scope.home(target.value)
    uses = [r.node for r in index.references[target.value] if r.scope.home(target.value) is home]
    calls = {id(plan.site.call) for plan in context.plan(Plan) if plan.options.compression is None}
    arguments = [argument for node in uses if isinstance(argument := index.parent(node), cst.Arg)]
    return len(arguments) == len(uses) > 0 and all(id(index.parent(argument)) in calls for argument in arguments)


@rule("HVD206", "constants", symbols=["horovod.torch.Adasum"])
def adasum(site: Site, context: Context) -> Finding:
    if not any(isinstance(holder, cst.IfExp) for holder in site.module.index.ancestors(site.node)):
        if error := raising(site, site.node):
            return error
        raise RefusalError(NO_ADASUM)
    message = "Adasum has no counterpart: the program raises an error when the flag asks for it"
    return site.replace(expression("adasum()"), class_="review", message=message, helpers=["adasum"])


@rule("HVD206", "constants", symbols=["horovod.torch.Compression"])
def compression_type(site: Site, context: Context) -> Finding:
    if site.module.index.parent(site.node) is not None and not site.is_annotation:
        raise RefusalError("the class of compressions is used as a value")
    return site.replace(
        expression("torch.dtype"), class_="review", message="Compression → torch.dtype", imports=[TORCH]
    )
