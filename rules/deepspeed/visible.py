"""Whether code that stands elsewhere means the same where the engine is made."""

from __future__ import annotations

from migrator.api import Module, Site, Template, cst, definition_of, dotted_name

from ..values import possible_values
from .model import class_around, function_of

MAX_DEPTH = 3


def at_wrap(node: cst.BaseExpression, module: Module, wrap: Site, depth: int = 0) -> Template | None:
    """Code for the value of ``node`` that can stand at ``wrap``; None where it is not known there."""
    if isinstance(node, (cst.Integer, cst.Float)):
        return Template(node.value)
    if is_visible(node, module, wrap):
        return Template(dotted_name(node))
    root = dotted_name(node).partition(".")[0]
    bindings = module.index.scope_of(node).lookup(root) if root else ()
    function = bindings[0].scope.node if len(bindings) == 1 and bindings[0].kind == "parameter" else None
    if isinstance(function, cst.FunctionDef) and depth < MAX_DEPTH:
        given, more = module.functions.given(definition_of(function, module), root)
        found = [at_wrap(g.value, g.module, wrap, depth + 1) for g in given]
        texts = {template.text if template is not None else "" for template in found}
        rest = dotted_name(node).removeprefix(root)
        if more or len(texts) != 1 or "" in texts or (rest and not texts.copy().pop().isidentifier()):
            return None
        return Template(texts.pop() + rest)
    values = {
        value.value if isinstance(value, (cst.Integer, cst.Float)) else "" for value in possible_values(node, module)
    }
    return Template(values.pop()) if len(values) == 1 and "" not in values else None


def is_visible(node: cst.BaseExpression, module: Module, wrap: Site) -> bool:
    """Whether the name ``node`` means the same at ``wrap``, and has its value by then."""
    root = dotted_name(node).partition(".")[0]
    if not root or module is not wrap.module:
        return False
    if root == "self":
        name = dotted_name(node).partition(".")[2].partition(".")[0]
        return _is_stored(name, node, wrap)
    index = module.index
    home = index.scope_of(node).home(root)
    if home is None or wrap.scope.home(root) is not home:
        return False
    here = [binding for binding in home.bindings[root] if binding.kind != "parameter"]
    is_own = home is index.scope_of(wrap.target) or home is index.scope
    return (
        is_own
        and all(index.before(b.node, wrap.target) for b in here)
        and (len(here) <= 1 or root != dotted_name(node))
    )


def _is_stored(name: str, node: cst.CSTNode, wrap: Site) -> bool:
    """Whether ``self`` has the attribute ``name`` from the function of ``wrap``, and from before it, alone."""
    module, index = wrap.module, wrap.module.index
    if class_around(node, module) is not class_around(wrap.target, module):
        return False
    targets = [n for n in index.attributes[name] if isinstance(index.parent(n), (cst.AssignTarget, cst.AnnAssign))]
    function = function_of(wrap.target, module)
    is_ours = all(function_of(n, module) is function and index.before(n, wrap.target) for n in targets)
    return bool(targets) and is_ours
