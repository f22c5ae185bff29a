"""What an expression can be, as far as the code in sight says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrator.api import Binding, Index, Module, children_of, cst, definition_of, dotted_name

MAX_DEPTH = 6


def possible_values(
    node: cst.BaseExpression, module: Module, depth: int = 0, *, of_horovod: bool = True
) -> Iterator[cst.BaseExpression | None]:
    """The expressions that ``node`` may stand for: both arms of a conditional, the assignments that may reach it.

    A parameter may be what its callers give it, an attribute of ``self`` what its class stores in it. None is among
    them where something else, out of sight, may decide: files that do not name Horovod are not read, but can give a
    parameter nothing ``of_horovod``.
    """
    module = module.holding(node)
    if depth > MAX_DEPTH:
        yield None
    elif isinstance(node, cst.IfExp):
        yield from possible_values(node.body, module, depth, of_horovod=of_horovod)
        yield from possible_values(node.orelse, module, depth, of_horovod=of_horovod)
    elif isinstance(node, cst.Name) and (bindings := module.index.scope_of(node).lookup(node.value)):
        for binding in reaching(node, bindings, module.index):
            if binding.kind == "assignment" and binding.value is not None:
                yield from possible_values(binding.value, module, depth + 1, of_horovod=of_horovod)
            elif binding.kind == "parameter":
                yield from _given(binding, module, depth + 1, of_horovod)
            else:
                yield node if binding.kind == "import" else None
    elif isinstance(node, cst.Attribute) and dotted_name(node.value) == "self":
        yield from _stored(node, module, depth + 1, of_horovod)
    else:
        yield node


def _given(binding: Binding, module: Module, depth: int, of_horovod: bool) -> Iterator[cst.BaseExpression | None]:
    """What the callers of a function give to the parameter ``binding``; None where some are not in sight."""
    function = binding.scope.node
    outer = binding.scope.parent
    if not isinstance(function, cst.FunctionDef) or not (of_horovod or (outer and outer.kind == "function")):
        yield None
        return
    given, more = module.functions.given(definition_of(function, module), binding.name)
    if more or not any(isinstance(found.place, cst.Arg) for found in given):
        yield None
    for found in given:
        yield from possible_values(found.value, found.module, depth, of_horovod=of_horovod)


def _stored(node: cst.Attribute, module: Module, depth: int, of_horovod: bool) -> Iterator[cst.BaseExpression | None]:
    """What the class around ``node`` stores in the attribute of ``self``; the attribute itself where it does not."""
    owner = _class_around(node, module)
    targets = [n for n in module.index.attributes[node.attr.value] if _class_around(n, module) is owner]
    holders = [module.index.parent(target) for target in targets]
    assigns = [module.index.parent(h) if isinstance(h, cst.AssignTarget) else h for h in holders]
    values = [a.value for a in assigns if isinstance(a, (cst.Assign, cst.AnnAssign)) and a.value is not None]
    if not values or owner is None or any(isinstance(a, (cst.AugAssign, cst.Del)) for a in assigns):
        yield node
    for value in values if owner is not None else ():
        yield from possible_values(value, module, depth, of_horovod=of_horovod)


def _class_around(node: cst.CSTNode, module: Module) -> cst.ClassDef | None:
    return next((holder for holder in module.index.ancestors(node) if isinstance(holder, cst.ClassDef)), None)


def reaching(node: cst.CSTNode, bindings: Sequence[Binding], index: Index) -> Sequence[Binding]:
    """Those of ``bindings`` whose value the name may have at ``node``; all of them where order does not tell."""
    if any(index.scope_of(node) is not binding.scope for binding in bindings):
        return bindings
    holders = {id(holder) for holder in index.ancestors(node)}
    inside = {id(binding.node): index.line(binding.node) for binding in bindings}
    certain = [
        b
        for b in bindings
        if b.kind == "assignment"
        and id(index.parent(inside[id(b.node)])) in holders
        and id(inside[id(b.node)]) not in holders
        and index.before(b.node, node)
    ]
    if not certain:
        return bindings
    last = certain[-1]
    loops = [h for h in index.ancestors(node) if isinstance(h, (cst.For, cst.While))]
    around = [loop for loop in loops if not any(h is loop for h in index.ancestors(last.node))]
    again = [b for b in bindings if any(h is loop for loop in around for h in index.ancestors(b.node))]
    between = [b for b in bindings if index.before(last.node, b.node) and index.before(b.node, node)]
    between = [b for b in between if id(inside[id(b.node)]) not in holders]
    return [last, *(b for b in bindings if b is not last and (b in again or b in between))]


def symbol_of(node: cst.CSTNode, module: Module) -> str:
    """The dotted name of what ``node`` names, through the imports of its module; empty if it names nothing imported."""
    module = module.holding(node)
    if known := module.symbols.get(id(node)):
        return known
    name = dotted_name(node) if isinstance(node, cst.BaseExpression) else ""
    root, _, rest = name.partition(".")
    symbols = {binding.symbol for binding in module.index.scope_of(node).lookup(root)} if root else set()
    found = symbols.pop() if len(symbols) == 1 else None
    if found is None:
        return ""
    return f"{found}.{rest}" if rest else found


def is_of_project(symbol: str, module: Module) -> bool:
    """Whether ``symbol`` is a file of the project that is not this one, or what such a file holds."""
    return bool({symbol, symbol.rpartition(".")[0]} & module.project)


def calls_within(node: cst.CSTNode) -> Iterator[cst.Call]:
    """Every call in ``node``."""
    if isinstance(node, cst.Call):
        yield node
    for child in children_of(node):
        yield from calls_within(child)


def is_constant(node: cst.BaseExpression | None, value: str) -> bool:
    """Whether ``node`` is the literal ``value``, as it is written."""
    return isinstance(node, (cst.Name, cst.Integer, cst.Float)) and node.value == value


def is_zero(node: cst.BaseExpression | None) -> bool:
    """Whether ``node`` is missing, or the number 0."""
    return node is None or (isinstance(node, (cst.Integer, cst.Float)) and not float(node.value))
