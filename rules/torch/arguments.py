"""The arguments of a call, also where some are written elsewhere: ``wrap(optimizer, **options)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from migrator.api import Module, RefusalError, Site, cst, definition_of, dotted_name

from ..values import possible_values


def arguments_of(site: Site, names: Sequence[str]) -> Mapping[str, cst.BaseExpression]:
    """The call's arguments by parameter, those of ``**options`` included where it is known what they hold.

    Raises RefusalError for what cannot be told.
    """
    starred = [argument for argument in site.call.args if argument.star] if site.call is not None else []
    if len(starred) != 1 or starred[0].star != "**" or site.call is None:
        return site.arguments(*names)
    plain = Site(site.symbol, site.node, _without(site.call, starred[0]), site.module, site.scope, site.home)
    more = _held(starred[0].value, site.module)
    if more is None:
        raise RefusalError(f"what **{dotted_name(starred[0].value) or 'options'} holds is decided out of sight")
    if unknown := more.keys() - set(names):
        raise RefusalError(f"the argument {sorted(unknown)[0]!r} has no counterpart")
    return {**plain.arguments(*names), **more}


def _without(call: cst.Call, argument: cst.Arg) -> cst.Call:
    return call.with_changes(args=[other for other in call.args if other is not argument])


def _held(node: cst.BaseExpression, module: Module) -> Mapping[str, cst.BaseExpression] | None:
    """The items of the dictionary that ``node`` stands for; None where they are not certain."""
    if isinstance(node, cst.Name) and _is_changed(node, module):
        return None
    if isinstance(node, cst.Name) and (given := _given(node, module)) is not None:
        return given
    values = list(possible_values(node, module))
    if len(values) != 1 or values[0] is None:
        return None
    value = values[0]
    if isinstance(value, cst.Call) and dotted_name(value.func) == "dict":
        found = {a.keyword.value: a.value for a in value.args if a.keyword is not None}
        return found if len(found) == len(value.args) else None
    if not isinstance(value, cst.Dict):
        return None
    found = dict(item for element in value.elements for item in _item(element))
    return found if len(found) == len(value.elements) else None


def _item(element: cst.BaseDictElement) -> Iterator[tuple[str, cst.BaseExpression]]:
    if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
        yield element.key.raw_value, element.value


def _is_changed(node: cst.Name, module: Module) -> bool:
    """Whether anything else is done with the name than to bind it and hand it on with two stars."""
    home = module.index.scope_of(node).home(node.value)
    uses = (r.node for r in module.index.references[node.value] if r.scope.home(node.value) is home)
    holders = (module.index.parent(use) for use in uses)
    return not all(isinstance(holder, cst.Arg) and holder.star == "**" for holder in holders)


def _given(node: cst.Name, module: Module) -> Mapping[str, cst.BaseExpression] | None:
    """What the only caller in sight gives to ``**node`` of a function; None where there is another."""
    bindings = module.index.scope_of(node).lookup(node.value)
    function = bindings[0].scope.node if len(bindings) == 1 and bindings[0].kind == "parameter" else None
    if not isinstance(function, cst.FunctionDef) or not isinstance(function.params.star_kwarg, cst.Param):
        return None
    definition = definition_of(function, module)
    calls = [call for _, call in module.functions.calls(definition)]
    if len(calls) != 1 or not isinstance(calls[0], cst.Call) or any(a.star for a in calls[0].args):
        return None
    own = {parameter.name.value for parameter in definition.parameters}
    return {a.keyword.value: a.value for a in calls[0].args if a.keyword is not None and a.keyword.value not in own}
