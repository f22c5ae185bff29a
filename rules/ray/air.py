"""HVD558 ray-air: configurations come from ``ray.train``, whose trainers refuse those of ``ray.air``.

Programs with a HorovodTrainer are of the time when ``ScalingConfig`` and ``RunConfig`` were those of ``ray.air``. The
``TorchTrainer`` of current Ray takes those of ``ray.train`` only, which have the same arguments.

Example:

```python
from ray.air.config import ScalingConfig
```

Use instead:

```python
from ray.train import ScalingConfig
```
"""

from __future__ import annotations

from collections.abc import Iterable

from migrator.api import Context, Finding, Import, Replace, Site, cst, dotted_name, expression, planner, rule

from ..imports import imports_of, moved
from ..values import symbol_of
from .names import TRAINER

NAMES = ("CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig")
SYMBOLS = [f"{package}.{name}" for package in ("ray.air", "ray.air.config") for name in NAMES]
IMPORTED, USED = "ray.air.config.import", "ray.air.config.use"


@planner
def plan_air(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the configurations of ``ray.air`` in a program whose trainer becomes a TorchTrainer."""
    sites: list[Site] = []
    for module in context.modules if context.uses(TRAINER) else ():
        index = module.index
        for statement in imports_of(SYMBOLS, module):
            assert not isinstance(statement.names, cst.ImportStar)
            sites.append(Site(IMPORTED, statement.names[0].name, None, module, index.scope_of(statement), index.scope))
        nodes = (node for name in NAMES for node in index.attributes[name] if symbol_of(node, module) in SYMBOLS)
        sites += [Site(USED, node, None, module, index.scope_of(node), index.scope) for node in nodes]
    return (), sites


@rule("HVD558", "ray-air", symbols=[IMPORTED])
def imported(site: Site, context: Context) -> Finding:
    statement = next(h for h in site.module.index.ancestors(site.node) if isinstance(h, cst.ImportFrom))
    assert not isinstance(statement.names, cst.ImportStar)
    names = [dotted_name(alias.name) for alias in statement.names]
    ours = [name for name in names if name in NAMES]
    message = f"{', '.join(ours)} of ray.air → ray.train, whose trainers take no other"
    return site.found("review", message, moved(statement, {name: ("ray.train", name) for name in ours}))


@rule("HVD558", "ray-air", symbols=[USED])
def used(site: Site, context: Context) -> Finding:
    name = symbol_of(site.node, site.module).rpartition(".")[2]
    message = f"{name} of ray.air → ray.train, whose trainers take no other"
    return site.found("review", message, [Replace(site.node, expression(name))], imports=[Import("ray.train", name)])
