"""Whether a collective's result can need a gradient."""

from __future__ import annotations

from migrator.api import Module, Site, cst, dotted_name

from ..values import possible_values, symbol_of

_COMPARISONS = frozenset({"eq", "ne", "ge", "gt", "le", "lt"})
_MAKERS = frozenset(
    {
        *("tensor", "from_numpy", "zeros", "ones", "full", "arange", "empty", "rand", "randn", "randint", "eye"),
        *("FloatTensor", "LongTensor", "IntTensor", "DoubleTensor", "Tensor", "zeros_like", "ones_like"),
    }
)
_DETACHING = frozenset(
    {
        "new",
        "new_zeros",
        "new_ones",
        "new_empty",
        "new_full",
        "detach",
        "argmax",
        "long",
        "int",
        *_COMPARISONS,
    }
)
_KEEPING = frozenset({"cpu", "cuda", "to", "float", "double", "sum", "mean", "clone", "view", "reshape", "item", "div"})
_WHOLE_NUMBERS = frozenset({"int", "len", "rank", "size", "local_rank", "local_size"})
_INTEGERS = frozenset({"long", "int", "LongTensor", "IntTensor", "argmax", "randint"})
_READERS = frozenset({"item", "tolist", "numpy"})


def is_gradient_free(site: Site, tensor: cst.BaseExpression) -> bool:
    """Whether no gradient can be asked of the site's result: of its tensor, its surroundings or its only use."""
    return (
        is_detached(tensor, site.module)
        or _is_read_at_once(site)
        or is_without_gradients(site.target, site.module)
        or _is_only_read(site)
    )


def detached(tensor: cst.BaseExpression, site: Site) -> str:
    """Code for the tensor, cut off from the graph where it may be part of one; ``{tensor}`` stands for it."""
    is_free = is_detached(tensor, site.module) or is_without_gradients(site.target, site.module)
    return "{tensor}" if is_free else "{tensor}.detach()"


def is_detached(node: cst.BaseExpression, module: Module) -> bool:
    """Whether ``node`` is a tensor that was just made, or cut off from the graph, and not written to since."""
    if isinstance(node, cst.Name) and _is_written_to(node, module):
        return False
    return all(
        value is not None and _is_detached(value, module) for value in possible_values(node, module, of_horovod=False)
    )


def _is_written_to(node: cst.Name, module: Module) -> bool:
    """Whether something is written into the tensor of this name: ``t[0] = x``, ``t.add_(x)``."""
    home = module.index.scope_of(node).home(node.value)
    uses = (r.node for r in module.index.references[node.value] if r.scope.home(node.value) is home)
    return any(_is_write(use, module) for use in uses)


def _is_write(node: cst.CSTNode, module: Module) -> bool:
    """Whether ``node``, or a view of it, is assigned to or changed by a method: ``t[0] = x``, ``t[0].add_(x)``."""
    holder = module.index.parent(node)
    while isinstance(holder, (cst.Subscript, cst.Attribute)) and holder.value is node:
        if isinstance(holder, cst.Attribute) and holder.attr.value.endswith("_"):
            return True
        node, holder = holder, module.index.parent(holder)
    return isinstance(node, cst.Subscript) and isinstance(holder, (cst.AssignTarget, cst.AugAssign))


def _is_detached(node: cst.BaseExpression, module: Module) -> bool:
    if isinstance(node, cst.Attribute):
        return node.attr.value in ("data", "grad")
    if isinstance(node, cst.Subscript):
        return is_detached(node.value, module)
    if isinstance(node, cst.BinaryOperation):
        sides = (node.left, node.right)
        return all(_is_number(side, module) or is_detached(side, module) for side in sides)
    if not isinstance(node, cst.Call):
        return False
    if any(a.keyword is not None and a.keyword.value == "requires_grad" for a in node.args):
        return False
    symbol = symbol_of(node.func, module)
    if symbol.startswith("torch.") and symbol.rpartition(".")[2] in _MAKERS:
        return True
    if not isinstance(node.func, cst.Attribute):
        return False
    method = node.func.attr.value
    return method in _DETACHING or (method in _KEEPING and _keeps(node, module))


def _keeps(node: cst.Call, module: Module) -> bool:
    """Whether a method that changes the values gets nothing that could bring a graph along."""
    assert isinstance(node.func, cst.Attribute)
    literals = (cst.BaseNumber, cst.SimpleString, cst.UnaryOperation, cst.Tuple)
    plain = (isinstance(a.value, literals) or a.keyword is not None or _is_device(a.value, module) for a in node.args)
    return is_detached(node.func.value, module) and all(plain)


def _is_device(node: cst.BaseExpression, module: Module) -> bool:
    name = dotted_name(node).rpartition(".")[2]
    return "device" in name or symbol_of(node, module).startswith("torch.")


def _is_number(node: cst.BaseExpression, module: Module) -> bool:
    if isinstance(node, cst.Call):
        known = symbol_of(node.func, module).startswith("horovod.torch.") and not node.args
        return known or dotted_name(node.func) in ("len", "int", "float")
    return isinstance(node, (cst.Integer, cst.Float))


def is_integer(node: cst.BaseExpression, module: Module) -> bool:
    """Whether ``node`` is certainly a tensor of integers."""
    values = list(possible_values(node, module, of_horovod=False))
    return bool(values) and all(value is not None and _is_integer(value) for value in values)


def _is_integer(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return _keeps_integers(node) and _is_integer(node.left) and _holds_integers(node.right)
    if not isinstance(node, cst.Call):
        return False
    if any(a.keyword is not None and a.keyword.value == "dtype" for a in node.args):
        types = [dotted_name(a.value) for a in node.args if a.keyword is not None and a.keyword.value == "dtype"]
        return types[0].rpartition(".")[2] in ("int32", "int64", "long", "int")
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted_name(node.func)
    if name in _INTEGERS or (name == "sum" and isinstance(node.func, cst.Attribute) and _compares(node.func.value)):
        return True
    return name in ("tensor", "as_tensor") and bool(node.args) and _holds_integers(node.args[0].value)


def _holds_integers(node: cst.BaseExpression) -> bool:
    if isinstance(node, (cst.List, cst.Tuple)):
        return bool(node.elements) and all(_holds_integers(element.value) for element in node.elements)
    if isinstance(node, cst.UnaryOperation):
        return _holds_integers(node.expression)
    if isinstance(node, cst.BinaryOperation):
        return _keeps_integers(node) and _holds_integers(node.left) and _holds_integers(node.right)
    name = dotted_name(node.func).rpartition(".")[2] if isinstance(node, cst.Call) else ""
    return isinstance(node, cst.Integer) or name in _WHOLE_NUMBERS


def _keeps_integers(node: cst.BinaryOperation) -> bool:
    return isinstance(node.operator, (cst.Add, cst.Subtract, cst.Multiply, cst.FloorDivide, cst.Modulo))


def _compares(node: cst.BaseExpression) -> bool:
    """Whether ``node`` is a tensor of truth values, whose sum is a number of them."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value in _COMPARISONS
    return isinstance(node, cst.Comparison)


def _is_read_at_once(site: Site) -> bool:
    holder = site.module.index.parent(site.target)
    return isinstance(holder, cst.Attribute) and holder.attr.value in _READERS


def is_without_gradients(node: cst.CSTNode, module: Module) -> bool:
    """Whether ``node`` stands under ``torch.no_grad()`` or in a function that does."""
    for holder in module.index.ancestors(node):
        if isinstance(holder, cst.With):
            if any(_names_no_grad(item.item) for item in holder.items):
                return True
        elif isinstance(holder, cst.FunctionDef):
            return any(_names_no_grad(decorator.decorator) for decorator in holder.decorators)
    return False


def _names_no_grad(node: cst.BaseExpression) -> bool:
    function = node.func if isinstance(node, cst.Call) else node
    return dotted_name(function).rpartition(".")[2] in ("no_grad", "inference_mode")


def _is_only_read(site: Site) -> bool:
    """Whether the result is assigned to a name that is only read as a number afterwards."""
    target = site.assigned_to
    if not isinstance(target, cst.Name):
        return False
    home = site.scope.target(target.value)
    if len(home.bindings[target.value]) != 1:
        return False
    references = site.module.index.references[target.value]
    uses = [r.node for r in references if r.scope.home(target.value) is home]
    holders = [site.module.index.parent(node) for node in uses]
    return bool(holders) and all(isinstance(h, cst.Attribute) and h.attr.value in _READERS for h in holders)
