"""HVD561 lightning-strategy: a Trainer that was told to use Horovod uses DDP.

``strategy="horovod"``, before 1.5 ``accelerator="horovod"`` or ``distributed_backend="horovod"``, becomes the ``ddp``
of the version that the project requires, or of the current one: Lightning 2 knows no Horovod. Both average gradients
and give each rank its part of the data. What differs without an error is said: Lightning multiplied the learning rate
of every optimizer by the number of ranks under Horovod, and does not under DDP.

Example:

```python
trainer = pl.Trainer(strategy="horovod", accelerator="gpu", devices=1)
```

Use instead:

```python
trainer = pl.Trainer(strategy="ddp", accelerator="gpu", devices=1)
```
"""

from __future__ import annotations

from migrator.api import Context, Edit, Finding, RefusalError, Replace, Site, cst, expression, rule

from .chosen import Chosen, Given
from .plan import CHOICE, DEFAULT, OPTION

SCALED = (
    "Lightning multiplied learning rates by the number of ranks under Horovod, which it does not for ddp: do so in "
    "configure_optimizers; a parameter without a gradient is an error there (ddp_find_unused_parameters_true)"
)


@rule("HVD561", "lightning-strategy", symbols=[CHOICE])
def strategy(site: Site, context: Context) -> Finding:
    assert isinstance(site.node, cst.SimpleString)
    plan = next(context.plan(Chosen))
    given, quote = plan.strings[id(site.node)], site.node.quote
    edits: list[Edit] = [Replace(site.node, expression(f"{quote}ddp{quote}"))]
    name = given.name
    if given.name != "strategy" and context.has_strategy:
        _refuse_rename(given, plan.others[id(site.node)], site)
        name = "strategy"
        edits.append(Replace(given.key, expression(_renamed(given.key))))
    message = f"{given.name}='horovod' → {name}='ddp'. {SCALED}"
    return site.found("review", message, edits)


def _refuse_rename(given: Given, others: list[Given], site: Site) -> None:
    if given.value is not site.node:
        raise RefusalError(
            f"{given.name} is 'horovod' only sometimes, and the ddp of this Lightning is a strategy: say which"
        )
    if _is_read(given, site):
        raise RefusalError(f"{given.name!r} is also a name by which values are looked up, and would become 'strategy'")
    if any(one.name == "strategy" for one in others):
        raise RefusalError(f"{given.name}='horovod' and a strategy are given: leave one, strategy='ddp'")


def _is_read(given: Given, site: Site) -> bool:
    """Whether a dictionary may be asked for the argument by its name, which it would no longer have."""
    strings = site.module.index.strings
    return any(node is not given.key and node.raw_value == given.name for node in strings)


def _renamed(key: cst.CSTNode) -> str:
    return f"{key.quote}strategy{key.quote}" if isinstance(key, cst.SimpleString) else "strategy"


@rule("HVD561", "lightning-strategy", symbols=[DEFAULT])
def default(site: Site, context: Context) -> Finding:
    assert isinstance(site.node, cst.SimpleString)
    quote = site.node.quote
    edits = [Replace(site.node, expression(f"{quote}ddp{quote}"))]
    return site.found("review", f"the default of strategy, 'horovod' → 'ddp'. {SCALED}", edits)


@rule("HVD561", "lightning-strategy", symbols=[OPTION])
def option(site: Site, context: Context) -> Finding:
    message = f"the option chooses Horovod for a Trainer: --trainer.strategy=ddp does so for DDP. {SCALED}"
    return site.found("review", message)
