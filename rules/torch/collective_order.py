"""Horovod pairs collectives by their names, torch.distributed by the order of the calls: where the two may differ.

That is where collectives run while the program goes on. Those that it waits for at once must come in one order on all
ranks under Horovod too, which otherwise waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from migrator.api import Finding, Module, Replace, Site, Template, children_of, cst, dotted_name, expression

from ..values import possible_values
from .reduction import Arguments

_VIEWS = ("items", "keys", "values")
_KEEPS_ORDER = ("append", "extend", "insert", "add_", "put", "write", "print", "popleft", "update")
_HOOKS = ("hook", "_hook")
PAIRS = "Horovod pairs collectives by name, torch.distributed by order"


@dataclass(frozen=True, eq=False)
class _Loop:
    """A loop, or the part of a comprehension that loops, with what it makes."""

    holder: cst.For | cst.CompFor
    maker: cst.CSTNode

    @property
    def names(self) -> list[str]:
        return list(_names(self.holder.target))


def by_name(site: Site, arguments: Arguments) -> tuple[Finding, ...]:
    """What to do, or to look at, where ranks may start the site's collective in an order of their own.

    Under Horovod, ranks that wait for their results in different orders wait for ever: what waits needs no care.
    """
    name = arguments.get("name")
    if name is None or "_async" not in site.short or not (wanted := set(_names(name))):
        return ()
    loop = next((loop for loop in _loops(site) if wanted & set(loop.names)), None)
    if loop is not None and _is_unordered(loop.holder.iter, site.module):
        return _in_loop(site, name, loop)
    if _is_in_hook(site):
        message = f"{site.short}: {PAIRS}: autograd must reach the hooks in the same order on all ranks"
        return (site.found("review", message),)
    return ()


def _in_loop(site: Site, name: cst.BaseExpression, loop: _Loop) -> tuple[Finding, ...]:
    iterable = loop.holder.iter
    source = " ".join(site.module.source(iterable).split())
    if not _is_key(name, loop) or not _is_free_of_order(loop.maker):
        message = f"{site.short}: {PAIRS}: every rank must go through {source} in the same order"
        return (site.found("review", message),)
    message = f"{site.short}: {PAIRS}: the loop goes through sorted({source}), in the same order on all ranks"
    return (site.found("review", message, [Replace(iterable, _sorted(iterable))]),)


def _loops(site: Site) -> Iterator[_Loop]:
    """The loops around the site, the innermost first."""
    inner: cst.CSTNode = site.target
    for holder in site.module.index.ancestors(site.target):
        if isinstance(holder, cst.For) and inner is not holder.iter:
            yield _Loop(holder, holder.body)
        elif isinstance(holder, cst.BaseComp) and inner is not holder.for_in:
            parts = [holder.for_in]
            while parts[-1].inner_for_in is not None:
                parts.append(parts[-1].inner_for_in)
            yield from (_Loop(part, holder) for part in reversed(parts))
        elif isinstance(holder, (cst.FunctionDef, cst.Lambda)):
            return
        inner = holder


def _is_unordered(node: cst.BaseExpression, module: Module) -> bool:
    """Whether the order of what ``node`` goes through may differ between ranks: of a dict's entries, of a set."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _VIEWS:
        owner = node.func.value
        return not (isinstance(owner, cst.Call) and dotted_name(owner.func).rpartition(".")[2] == "state_dict")
    if isinstance(node, cst.Call) and dotted_name(node.func) in ("list", "tuple", "enumerate") and node.args:
        return _is_unordered(node.args[0].value, module)
    if isinstance(node, cst.Name):
        values = (value for value in possible_values(node, module) if value is not None and value is not node)
        return any(_is_set(value) for value in values)
    return _is_set(node)


def _is_set(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Set, cst.SetComp)) or (
        isinstance(node, cst.Call) and dotted_name(node.func) in ("set", "frozenset") and bool(node.args)
    )


def _is_key(name: cst.BaseExpression, loop: _Loop) -> bool:
    """Whether ``name``, a string, is the key that the loop can be sorted by."""
    target: cst.BaseExpression = loop.holder.target
    view = _view(loop.holder.iter)
    if view == "items" and isinstance(target, cst.Tuple) and len(target.elements) == 2:
        target = target.elements[0].value
    is_key = isinstance(name, cst.Name) and isinstance(target, cst.Name) and name.value == target.value
    return is_key and view in ("items", "keys", "set", "frozenset", "name")


def _view(node: cst.BaseExpression) -> str:
    """What a loop goes through: a view of a dict, a call of ``set``, a name."""
    if isinstance(node, cst.Name):
        return "name"
    if isinstance(node, cst.Call):
        return node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted_name(node.func)
    return ""


def _is_free_of_order(maker: cst.CSTNode) -> bool:
    """Whether what a loop makes is the same in any order, but for that of a dict's entries."""
    if isinstance(maker, cst.BaseComp):
        return isinstance(maker, (cst.DictComp, cst.SetComp))
    if isinstance(maker, (cst.AugAssign, cst.Yield, cst.Break, cst.Continue, cst.Return, cst.Raise)):
        return False
    if isinstance(maker, cst.Call) and dotted_name(maker.func).rpartition(".")[2] in _KEEPS_ORDER:
        return False
    return all(_is_free_of_order(child) for child in children_of(maker) if not isinstance(child, cst.BaseComp))


def _sorted(node: cst.BaseExpression) -> Template:
    """``sorted(...)`` of what ``node`` goes through."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return expression(f"sorted({{owner}}.{node.func.attr.value}())", owner=node.func.value)
    if isinstance(node, cst.Call):
        return expression(f"sorted({dotted_name(node.func)}({{items}}))", items=node.args[0].value)
    return expression(f"sorted({dotted_name(node)})")


def _is_in_hook(site: Site) -> bool:
    """Whether the site is in a function that is registered as a hook, or that makes one."""
    index = site.module.index
    for holder in index.ancestors(site.target):
        if not isinstance(holder, (cst.FunctionDef, cst.Lambda)):
            continue
        named: list[cst.CSTNode] = [holder]
        if isinstance(holder, cst.FunctionDef):
            named = [r.node for r in index.references[holder.name.value]] + list(index.attributes[holder.name.value])
        if any(_is_registered(node, site) for node in named):
            return True
    return False


def _is_registered(node: cst.CSTNode, site: Site) -> bool:
    call = next((h for h in site.module.index.ancestors(node) if isinstance(h, cst.Call) and h.func is not node), None)
    function = dotted_name(call.func).rpartition(".")[2] if call is not None else ""
    if call is not None and not function and isinstance(call.func, cst.Attribute):
        function = call.func.attr.value
    return function.startswith("register_") and function.endswith(_HOOKS)


def _names(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.Name):
        yield node.value
    for child in children_of(node):
        yield from _names(child)
