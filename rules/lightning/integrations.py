"""HVD567 other-integrations: what another library brings for Horovod calls Horovod itself.

Tensorpack, Catalyst, DeepSpeed's predecessors and many more have a trainer, a hook or a flag of their own for Horovod.
Such a name is of no use to a program that joins a process group of PyTorch, and often gone from the library's current
release. What the library has in its place, most often its support for DDP, is for a person to choose.

Example:

```python
from tensorpack.train import HorovodTrainer
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from migrator.api import Binding, Context, Finding, Module, RefusalError, Site, cst, planner, rule

from ..values import is_of_project
from .strategy_object import NAMES as STRATEGIES

INTEGRATION = "horovod.of.another.library"
OURS = ("horovod", "sparkdl", "ray", "lightning_horovod")


@planner
def plan_integrations(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find what a program imports for Horovod from other libraries."""
    return (), [site for module in context.modules for site in _imports(module)]


def _imports(module: Module) -> Iterator[Site]:
    scopes = (module.index.scope, *module.index.scopes.values())
    for binding in (b for scope in scopes for bindings in scope.bindings.values() for b in bindings):
        if isinstance(binding.node, cst.ImportAlias) and _is_for_horovod(binding, module):
            scope = module.index.scope_of(binding.node)
            yield Site(INTEGRATION, binding.node.name, None, module, scope, module.index.scope)


def _is_for_horovod(binding: Binding, module: Module) -> bool:
    symbol = binding.symbol or ""
    root, name = symbol.partition(".")[0], symbol.rpartition(".")[2]
    named = "horovod" in name.lower() or "horovod" in symbol.split(".")[1:]
    return named and root not in ("", *OURS) and name not in STRATEGIES and not is_of_project(symbol, module)


@rule("HVD567", "other-integrations", symbols=[INTEGRATION])
def integration(site: Site, context: Context) -> Finding:
    name = site.module.source(site.node).strip()
    raise RefusalError(
        f"{name} is another library's, and calls Horovod: take what the library has for DDP in its place"
    )
