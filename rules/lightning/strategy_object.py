"""HVD564 lightning-strategy-object: HorovodStrategy and HorovodPlugin become DDPStrategy.

An object says what ``strategy="horovod"`` says, so it becomes the object that says ``ddp``: ``DDPStrategy`` of the same
package, or ``DDPPlugin`` where the project requires a Lightning before 1.5. What differs is what HVD561 names. A class
of the program's own that derives from Horovod's changes how Horovod is called: a person says what that means for DDP.

Example:

```python
from pytorch_lightning.strategies import HorovodStrategy

trainer = pl.Trainer(strategy=HorovodStrategy(), devices=1)
```

Use instead:

```python
from pytorch_lightning.strategies import DDPStrategy

trainer = pl.Trainer(strategy=DDPStrategy(), devices=1)
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from migrator.api import (
    Context,
    Edit,
    Finding,
    Module,
    RefusalError,
    Replace,
    Site,
    Template,
    cst,
    dotted_name,
    expression,
    planner,
    rule,
)

from ..values import symbol_of
from .chosen import COUNTS, KEYWORDS, PACKAGES, arguments, horovods, site_of
from .plan import COUNT
from .strategy import SCALED

OBJECT = "lightning.HorovodStrategy"
IMPORTED = "lightning.import.HorovodStrategy"
NAMES = ("HorovodStrategy", "HorovodPlugin", "HorovodAccelerator")
KEPT = ("accelerator", "parallel_devices", "checkpoint_io", "precision_plugin")


@planner
def plan_objects(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the objects that are Horovod's strategy, their imports, and what their Trainers are told besides."""
    sites: list[Site] = []
    for module in context.modules:
        for node in _objects(module):
            sites.append(site_of(OBJECT, node, module))
            sites += _counts(node, module)
        sites += [_import_site(statement, module) for statement in _imports(module)]
    return (), sites


def _import_site(statement: cst.ImportFrom | cst.Import, module: Module) -> Site:
    first = statement.names[0].name if not isinstance(statement.names, cst.ImportStar) else statement.module
    assert first is not None
    return site_of(IMPORTED, first, module)


def is_lightnings(symbol: str) -> bool:
    root, name = symbol.partition(".")[0], symbol.rpartition(".")[2]
    return root in (*PACKAGES, "lightning_horovod") and name in NAMES


def _objects(module: Module) -> Iterator[cst.Name | cst.Attribute]:
    for name in NAMES:
        nodes: list[cst.Name | cst.Attribute] = list(module.index.attributes[name])
        nodes += [reference.node for local in _locals(name, module) for reference in module.index.references[local]]
        yield from (node for node in nodes if is_lightnings(symbol_of(node, module)))


def _locals(name: str, module: Module) -> set[str]:
    """The names under which the module imports ``name``."""
    scopes = (module.index.scope, *module.index.scopes.values())
    found = (binding for scope in scopes for bindings in scope.bindings.values() for binding in bindings)
    return {binding.name for binding in found if (binding.symbol or "").rpartition(".")[2] == name}


def _imports(module: Module) -> Iterator[cst.ImportFrom | cst.Import]:
    """The statements that import Horovod's strategy, or the package that brings it to Lightning 2."""
    scopes = (module.index.scope, *module.index.scopes.values())
    found: dict[int, cst.ImportFrom | cst.Import] = {}
    for binding in (b for scope in scopes for bindings in scope.bindings.values() for b in bindings):
        symbol = binding.symbol or ""
        if is_lightnings(symbol) or symbol.partition(".")[0] == "lightning_horovod":
            holders = (binding.node, *module.index.ancestors(binding.node))
            statement = next((h for h in holders if isinstance(h, (cst.ImportFrom, cst.Import))), None)
            if statement is not None:
                found[id(statement)] = statement
    yield from found.values()


def _counts(node: cst.CSTNode, module: Module) -> Iterator[Site]:
    """What the Trainer around ``node`` is told of devices, where no string names Horovod to it too."""
    call = next((h for h in module.index.ancestors(node) if isinstance(h, cst.Call) and h.func is not node), None)
    if call is None or dotted_name(call.func).rpartition(".")[2] != "Trainer":
        return
    given = list(arguments(call, module))
    if not any(one.name in KEYWORDS and any(horovods(one, module)) for one in given):
        counts = [one.value for one in given if one.name in COUNTS]
        yield from (site_of(COUNT, count, module) for count in counts or [call])


@rule("HVD564", "lightning-strategy-object", symbols=[OBJECT])
def strategy_object(site: Site, context: Context) -> Finding:
    index = site.module.index
    holder = index.parent(site.node)
    call = holder if isinstance(holder, cst.Call) and holder.func is site.node else None
    argument = index.parent(call or site.node)
    if isinstance(argument, cst.Arg) and isinstance(index.parent(argument), cst.ClassDef):
        raise RefusalError("a class derives from Lightning's Horovod: what it changes has another place in DDPStrategy")
    names = [a.keyword.value if a.keyword is not None else "" for a in call.args] if call is not None else []
    if unknown := [name for name in names if name not in KEPT]:
        raise RefusalError(f"{unknown[0] or 'an argument without a name'} has no counterpart in DDPStrategy")
    new = "DDPStrategy" if context.has_strategy else "DDPPlugin"
    edits: list[Edit] = [] if _is_renamed(site.node, site) else [Replace(site.node, _with_name(site.node, new))]
    if context.has_strategy and isinstance(argument, (cst.Arg, cst.Element)):
        edits += _as_strategy(argument, call, site)
    return site.found("review", f"{symbol_of(site.node, site.module).rpartition('.')[2]} → {new}. {SCALED}", edits)


def _as_strategy(argument: cst.Arg | cst.Element, made: cst.Call | None, site: Site) -> Iterator[Edit]:
    """Edits that move the only plugin of a Trainer to its strategy."""
    holders = (argument, *site.module.index.ancestors(argument))
    keyword = next((holder for holder in holders if isinstance(holder, cst.Arg)), None)
    call = site.module.index.parent(keyword) if keyword is not None else None
    if (
        keyword is None
        or keyword.keyword is None
        or keyword.keyword.value != "plugins"
        or not isinstance(call, cst.Call)
    ):
        return
    is_only = keyword is argument or (isinstance(keyword.value, cst.List) and len(keyword.value.elements) == 1)
    if (
        made is None
        or not is_only
        or any(a.keyword is not None and a.keyword.value in KEYWORDS[::2] for a in call.args)
    ):
        raise RefusalError("Lightning takes its strategy as strategy=DDPStrategy(), not among plugins")
    yield Replace(keyword.keyword, expression("strategy"))
    if keyword is not argument:
        yield Replace(keyword.value, expression("{plugin}", plugin=made))


def _with_name(node: cst.BaseExpression, name: str) -> Template:
    return expression(f"{{holder}}.{name}", holder=node.value) if isinstance(node, cst.Attribute) else expression(name)


def _is_renamed(node: cst.BaseExpression, site: Site) -> bool:
    """Whether the module calls the class by a name of its own, which stays."""
    return isinstance(node, cst.Name) and node.value not in NAMES
