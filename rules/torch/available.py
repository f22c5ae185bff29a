"""HVD120 available: whether there is Horovod becomes whether PyTorch can communicate.

Programs import Horovod under ``try`` and ask later whether that worked. ``torch.distributed`` is part of PyTorch; a
program that is not started by a launcher trains alone, as rank 0 of 1. Where the import itself was the user's choice,
by a flag, the name becomes a flag and the rule has nothing to answer.

Example:

```python
if hvd is not None:
    hvd.init()
```

Use instead:

```python
if dist.is_available():
    init_process_group()
```
"""

from migrator.api import Context, Finding, Remove, Site, cst, expression, rule

from .names import DIST


@rule("HVD120", "available", symbols=["horovod.__spec__"])
def installed(site: Site, context: Context) -> Finding:
    assert isinstance(site.node, cst.SimpleString)
    quote = site.node.quote
    message = (
        "whether Horovod is installed → whether torch.distributed is: where it was not, the program now joins a group"
    )
    return site.replace(expression(f"{quote}torch.distributed{quote}"), class_="review", message=message)


@rule("HVD120", "available", symbols=["horovod.torch.__bool__", "horovod.__bool__"])
def available(site: Site, context: Context) -> Finding:
    statement = site.module.index.parent(site.node)
    if isinstance(statement, cst.Assert) and statement.test is site.node:
        message = "the assertion goes: torch.distributed is part of PyTorch"
        return site.found("exact", message, [Remove(statement)])
    new = "dist.is_available()"
    if isinstance(site.node, cst.Comparison) and isinstance(site.node.comparisons[0].operator, (cst.Is, cst.Equal)):
        new = f"not {new}"
    message = f"whether Horovod is installed → {new}: where it was not, the program now joins a group of its own"
    return site.replace(expression(new), class_="review", message=message, imports=[DIST])
