"""Statements that import Horovod's strategy for Lightning."""

from __future__ import annotations

from migrator.api import Context, Finding, RefusalError, Remove, Site, cst, dotted_name, rule

from ..imports import moved
from .strategy_object import IMPORTED, is_lightnings


@rule("HVD564", "lightning-strategy-object", symbols=[IMPORTED])
def imported(site: Site, context: Context) -> Finding:
    holders = (site.node, *site.module.index.ancestors(site.node))
    statement = next(holder for holder in holders if isinstance(holder, (cst.ImportFrom, cst.Import)))
    if isinstance(statement, cst.Import) or isinstance(statement.names, cst.ImportStar):
        return _package(statement, site)
    source, new = dotted_name(statement.module), "DDPStrategy" if context.has_strategy else "DDPPlugin"
    wanted = _module(source, context, site)
    names = {a: dotted_name(a.name) for a in statement.names}
    ours = [alias for alias, name in names.items() if is_lightnings(f"{source}.{name}")]
    if source.startswith("lightning_horovod") and len(ours) < len(names):
        raise RefusalError("lightning_horovod is Horovod for Lightning: what else is taken from it has no counterpart")
    edits = moved(statement, {names[alias]: (wanted, new) for alias in ours})
    return site.found("review", f"{', '.join(names[alias] for alias in ours)} → {new} of {wanted}", edits)


def _package(statement: cst.Import | cst.ImportFrom, site: Site) -> Finding:
    """What becomes of ``import lightning_horovod``, by which Lightning 2 learns of the strategy's name."""
    index = site.module.index
    if isinstance(statement, cst.ImportFrom) or len(statement.names) > 1 or index.references["lightning_horovod"]:
        raise RefusalError("lightning_horovod is Horovod for Lightning: import HorovodStrategy from it by name")
    return site.found("review", "lightning_horovod goes: it taught Lightning the name of Horovod", [Remove(statement)])


def _module(source: str, context: Context, site: Site) -> str:
    """Where DDP's class is imported from."""
    root = "pytorch_lightning" if source.startswith("pytorch_lightning") else "lightning.pytorch"
    if source.startswith("lightning_horovod") and "pytorch_lightning" in site.module.text:
        root = "pytorch_lightning"
    return f"{root}.strategies" if context.has_strategy else f"{root}.plugins"
