"""HVD572 deepspeed-forward: what trains calls the engine, everything else the model in it.

The forwards of a training loop go through the engine, which must see them. A function that is handed the model and
trains it is handed the engine; its parameter is called so. Whatever else such a function does with the model it does
with ``engine.module``, which is the model itself: ``state_dict`` keeps its keys, and evaluations stay what they were.

Example:

```python
output = model(data)
```

Use instead:

```python
output = engine(data)
```
"""

from migrator.api import Context, Finding, Replace, Site, Template, rule

from .names import FORWARD, NAME
from .use import use_of


@rule("HVD572", "deepspeed-forward", symbols=[FORWARD, NAME])
def forward(site: Site, context: Context) -> Finding:
    use = use_of(site, context)
    old = site.module.source(site.node).strip()
    what = (
        "a training forward goes through the engine" if site.symbol == FORWARD else "the engine in place of the model"
    )
    return site.found("exact", f"{old} → {use.text}: {what}", [Replace(site.node, Template(use.text))])
