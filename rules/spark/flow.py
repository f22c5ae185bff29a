"""Where the value of an expression goes, as far as the program shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from migrator.api import Module, cst, definition_of, dotted_name

from ..values import MAX_DEPTH, reaching

LOOKS_ONLY = ("print", "isinstance", "type", "repr", "str", "id", "bool", "hasattr")


@dataclass(frozen=True, eq=False)
class Use:
    """A place where the value is used: an ``attribute`` taken of it, or none where it goes out of sight there."""

    node: cst.CSTNode
    module: Module
    attribute: cst.Attribute | None = None


def uses_of(node: cst.BaseExpression, module: Module, depth: int = 0) -> Iterator[Use]:
    """Every use of the value that ``node`` has."""
    index = module.index
    holder = index.parent(node)
    if depth > MAX_DEPTH:
        yield Use(node, module)
    elif isinstance(holder, cst.Attribute):
        yield Use(holder, module, holder)
    elif isinstance(holder, (cst.IfExp, cst.BooleanOperation)):
        if not (isinstance(holder, cst.IfExp) and holder.test is node):
            yield from uses_of(holder, module, depth)
    elif isinstance(holder, cst.NamedExpr):
        yield from uses_of(holder, module, depth)
        yield from _stored(holder.target, module, depth)
    elif isinstance(holder, cst.Assign):
        for target in holder.targets:
            yield from _stored(target.target, module, depth)
    elif isinstance(holder, cst.AnnAssign):
        yield from _stored(holder.target, module, depth)
    elif isinstance(holder, cst.Return):
        yield from _returned(holder, module, depth)
    elif isinstance(holder, cst.Arg):
        yield from _given(holder, module, depth)
    elif not isinstance(holder, (cst.Expr, cst.Comparison, cst.If)):
        yield Use(node, module)


def _stored(target: cst.BaseExpression, module: Module, depth: int) -> Iterator[Use]:
    """The uses of what is assigned to ``target``, by name or as an attribute of any object."""
    index = module.index
    if isinstance(target, cst.Name):
        home = index.scope_of(target).home(target.value)
        for reference in index.references[target.value]:
            bindings = reference.scope.lookup(target.value)
            known = reference.scope.home(target.value) is home
            if known and any(b.node is target for b in reaching(reference.node, bindings, index)):
                yield from uses_of(reference.node, module, depth + 1)
    elif isinstance(target, cst.Attribute):
        for other in module.functions.modules:
            for attribute in other.index.attributes[target.attr.value]:
                if not isinstance(other.index.parent(attribute), (cst.AssignTarget, cst.AnnAssign)):
                    yield from uses_of(attribute, other, depth + 1)
    else:
        yield Use(target, module)


def _returned(statement: cst.Return, module: Module, depth: int) -> Iterator[Use]:
    """The uses of what the calls of the function around ``statement`` return."""
    function = next((h for h in module.index.ancestors(statement) if isinstance(h, cst.FunctionDef)), None)
    if function is None:
        yield Use(statement, module)
        return
    for other, call in module.functions.calls(definition_of(function, module)):
        if isinstance(call, cst.Call):
            yield from uses_of(call, other, depth + 1)


def _given(argument: cst.Arg, module: Module, depth: int) -> Iterator[Use]:
    """The uses of what ``argument`` hands to functions of the program."""
    call = module.index.parent(argument)
    if not isinstance(call, cst.Call) or dotted_name(call.func) in LOOKS_ONLY:
        return
    reached = module.functions.reached(call, module)
    if not reached:
        yield Use(argument, module)
    for definition in reached:
        name = definition.receives(call, argument)
        if name is None:
            yield Use(argument, module)
            continue
        for reference in definition.module.index.references[name]:
            if reference.scope.home(name) is definition.scope:
                yield from uses_of(reference.node, definition.module, depth + 1)
