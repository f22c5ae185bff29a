"""Functions of a module, and which parameter an argument of a call is for."""

from __future__ import annotations

from migrator.api import Module, cst


def local_function(node: cst.BaseExpression, module: Module) -> cst.FunctionDef | None:
    """The function of this module that ``node`` names, where that is certain."""
    if isinstance(node, cst.Name):
        found = module.index.scope_of(node).lookup(node.value)
        if len(found) == 1 and isinstance(found[0].node, cst.FunctionDef):
            return found[0].node
    return None


def parameter_of(function: cst.FunctionDef, call: cst.Call, argument: cst.Arg) -> str | None:
    """The name of the parameter that ``argument`` is for; None where stars hide it."""
    if argument.star or any(other.star for other in call.args):
        return None
    if argument.keyword is not None:
        return argument.keyword.value
    names = [p.name.value for p in (*function.params.posonly_params, *function.params.params)]
    place = next(n for n, other in enumerate(call.args) if other is argument)
    return names[place] if place < len(names) else None
