"""Functions of a module."""

from __future__ import annotations

from migrator.api import Module, cst


def local_function(node: cst.BaseExpression, module: Module) -> cst.FunctionDef | None:
    """The function of this module that ``node`` names, where that is certain."""
    if isinstance(node, cst.Name):
        found = module.index.scope_of(node).lookup(node.value)
        if len(found) == 1 and isinstance(found[0].node, cst.FunctionDef):
            return found[0].node
    return None
