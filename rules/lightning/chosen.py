"""Where a program hands a Trainer of PyTorch Lightning the name of its backend, or an object that is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from migrator.api import Module, Site, cst, dotted_name

from ..values import possible_values

PACKAGES = ("pytorch_lightning", "lightning")
KEYWORDS = ("strategy", "accelerator", "distributed_backend")
COUNTS = ("devices", "gpus", "num_nodes", "num_processes", "auto_select_gpus")


@dataclass(frozen=True, eq=False)
class Given:
    """One argument of a Trainer: its name as it is written, the node that says so, and the value."""

    name: str
    key: cst.CSTNode
    value: cst.BaseExpression


@dataclass(frozen=True, eq=False)
class Chosen:
    """What chooses Horovod for Trainers: by the identity of the string, the argument that it comes from."""

    strings: dict[int, Given] = field(default_factory=dict)
    others: dict[int, list[Given]] = field(default_factory=dict)


def trainers(module: Module) -> Iterator[cst.Call]:
    """The calls that make a Trainer of Lightning, or a command line that makes one."""
    names = ("Trainer", "from_argparse_args", "LightningCLI")
    nodes: list[cst.Name | cst.Attribute] = [node for name in names for node in module.index.attributes[name]]
    nodes += [reference.node for name in names for reference in module.index.references[name]]
    for node in dict.fromkeys(nodes):
        call = module.index.parent(node)
        if isinstance(call, cst.Call) and call.func is node and _is_of_lightning(node, module):
            yield call


def _is_of_lightning(node: cst.BaseExpression, module: Module) -> bool:
    """Whether ``node`` is imported from Lightning, under whichever of its names."""
    root = dotted_name(node).partition(".")[0]
    symbols = [binding.symbol or "" for binding in module.index.scope_of(node).lookup(root)] if root else []
    return bool(symbols) and all(symbol.partition(".")[0] in PACKAGES for symbol in symbols)


def arguments(call: cst.Call, module: Module) -> Iterator[Given]:
    """The named arguments of a call, those of dictionaries in sight that it unpacks too."""
    for argument in call.args:
        if argument.keyword is not None and argument.keyword.value == "trainer_defaults":
            yield from _items(argument.value)
        elif argument.keyword is not None:
            yield Given(argument.keyword.value, argument.keyword, argument.value)
        elif argument.star == "**":
            for value in possible_values(argument.value, module):
                yield from _items(value)
            yield from _stored(argument.value, module)


def _stored(holder: cst.BaseExpression, module: Module) -> Iterator[Given]:
    """What is put under a name into the dictionary that ``holder`` names: ``options["strategy"] = "horovod"``."""
    home = module.index.scope_of(holder).home(holder.value) if isinstance(holder, cst.Name) else None
    references = module.index.references[holder.value] if isinstance(holder, cst.Name) else []
    for reference in (r for r in references if home is not None and r.scope.home(r.node.value) is home):
        item = module.index.parent(reference.node)
        target = module.index.parent(item) if isinstance(item, cst.Subscript) else None
        assign = module.index.parent(target) if isinstance(target, cst.AssignTarget) else None
        if isinstance(item, cst.Subscript) and isinstance(assign, cst.Assign) and item.value is reference.node:
            key = item.slice[0].slice
            if isinstance(key, cst.Index) and isinstance(key.value, cst.SimpleString):
                yield Given(str(key.value.raw_value), key.value, assign.value)


def _items(node: cst.BaseExpression | None) -> Iterator[Given]:
    if isinstance(node, cst.Dict):
        for element in node.elements:
            if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
                yield Given(str(element.key.raw_value), element.key, element.value)
    elif isinstance(node, cst.Call) and dotted_name(node.func) == "dict":
        for argument in node.args:
            if argument.keyword is not None:
                yield Given(argument.keyword.value, argument.keyword, argument.value)


def horovods(given: Given, module: Module) -> Iterator[cst.SimpleString]:
    """The strings by which an argument names Horovod."""
    for value in possible_values(given.value, module):
        if isinstance(value, cst.SimpleString) and value.raw_value == "horovod":
            yield value


def site_of(symbol: str, node: cst.BaseExpression, module: Module) -> Site:
    """A site of the program that carries no symbol of Horovod's."""
    return Site(symbol, node, None, module, module.index.scope_of(node), module.index.scope)
