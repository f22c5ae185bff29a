"""How many samples a batch of a training loop has."""

from __future__ import annotations

from migrator.api import Module, Site, Template, cst, dotted_name

from ..values import possible_values, symbol_of
from .visible import at_wrap


def batch_size(backward: cst.Call, module: Module, wrap: Site) -> Template | None:
    """The ``batch_size`` of the loader that the loop around ``backward`` reads, as code for the place of ``wrap``."""
    loop = _innermost_loop(backward, module)
    for maker in possible_values(_plain(loop.iter), module) if loop is not None else ():
        own = module.holding(maker) if maker is not None else module
        if isinstance(maker, cst.Call) and symbol_of(maker.func, own).endswith(".DataLoader"):
            given = next((a.value for a in maker.args if a.keyword and a.keyword.value == "batch_size"), None)
            return at_wrap(given, own, wrap) if given is not None else None
    return None


def _innermost_loop(node: cst.CSTNode, module: Module) -> cst.For | None:
    loops = (holder for holder in module.index.ancestors(node) if isinstance(holder, (cst.For, cst.While)))
    loop = next(loops, None)
    return loop if isinstance(loop, cst.For) else None


def _plain(node: cst.BaseExpression) -> cst.BaseExpression:
    """What ``enumerate`` or a progress bar goes through."""
    while (
        isinstance(node, cst.Call) and node.args and dotted_name(node.func).rpartition(".")[2] in ("enumerate", "tqdm")
    ):
        node = node.args[0].value
    return node
