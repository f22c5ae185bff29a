"""Horovod in strings and comments: names of modules, exports, annotations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import libcst as cst

from migrator.api import Finding, Module, Site
from migrator.bindings import Binding, dotted_name
from migrator.layout import Span
from migrator.notices import ESCAPES, STRING
from migrator.verify import comment_spans

_TYPE_COMMENT = re.compile(r"#\s*type:\s*(?!ignore\b)")
_CHAIN = re.compile(r"\b\w+(?:\.\w+)+")
_DOTTED = re.compile(r"(horovod|sparkdl)(\.\w+)+")
_NAMED_IN_TEXT = re.compile(r"\b(horovod|sparkdl)\.")
_ASKS = re.compile(r"module|package|import|install|avail|exist|spec", re.IGNORECASE)
_IMPORTERS = ("import_module", "__import__")


class Symbols(Protocol):
    """What is known of names."""

    def symbol(self, binding: Binding, module: Module) -> str | None:
        """The dotted name that ``binding`` stands for."""

    def canonical(self, symbol: str) -> str:
        """The name under which rules know ``symbol``."""


def strings(module: Module, bindings: Sequence[Binding]) -> Iterator[tuple[str, Finding]]:
    """What to say of the module's strings, with the ID of the notice."""
    exported = {b.name for b in bindings if b.scope.kind == "module"}
    for node in module.index.strings:
        value = node.raw_value
        if value in exported and _in_all(node, module):
            yield ESCAPES, _blocked(node, f"{value!r} is exported to other files, which would no longer find it")
        elif (_DOTTED.fullmatch(value) or value.lower() == "horovod") and not _is_specification(node, module):
            yield STRING, _named(node, value, module)
    for call in _imports_by_name(module):
        if _NAMED_IN_TEXT.search(module.source(call.args[0])) and not isinstance(call.args[0].value, cst.SimpleString):
            yield STRING, _blocked(call, "Horovod is imported by a name that the program puts together")


def specifications(module: Module) -> Iterator[Site]:
    """Questions by name whether the library is there: ``find_spec("horovod")``, ``"horovod" in sys.modules``."""
    for node in module.index.strings:
        root = node.raw_value.partition(".")[0]
        if (_DOTTED.fullmatch(node.raw_value) or node.raw_value == "horovod") and _is_specification(node, module):
            scope = module.index.scope
            yield Site(f"{root}.__spec__", node, None, module, module.index.scope_of(node), scope)


def _is_specification(node: cst.SimpleString, module: Module) -> bool:
    holder = module.index.parent(node)
    if isinstance(holder, cst.Comparison) and holder.left is node and len(holder.comparisons) == 1:
        return dotted_name(holder.comparisons[0].comparator).endswith("sys.modules")
    return _called_with(node, module) == "find_spec"


def _is_loaded_module(node: cst.SimpleString, module: Module) -> bool:
    """``sys.modules["horovod.torch"]``, unless that is assigned to or deleted, or ``sys.modules.get(...)``."""
    holders = module.index.ancestors(node)
    holder = next((h for h in holders if isinstance(h, (cst.Subscript, cst.Call, cst.BaseSmallStatement))), None)
    if isinstance(holder, cst.Subscript):
        is_read = not isinstance(module.index.parent(holder), (cst.AssignTarget, cst.Del))
        return is_read and dotted_name(holder.value).endswith("sys.modules")
    return isinstance(holder, cst.Call) and dotted_name(holder.func).endswith("sys.modules.get")


def _called_with(node: cst.CSTNode, module: Module) -> str:
    """The last name of the function that ``node`` is an argument of; empty where it is none."""
    argument = module.index.parent(node)
    call = module.index.parent(argument) if isinstance(argument, cst.Arg) else None
    return dotted_name(call.func).rpartition(".")[2] if isinstance(call, cst.Call) else ""


def _imports_by_name(module: Module) -> Iterator[cst.Call]:
    for name in _IMPORTERS:
        nodes = (*(reference.node for reference in module.index.references[name]), *module.index.attributes[name])
        calls = (module.index.parent(node) for node in nodes)
        yield from (call for call in calls if isinstance(call, cst.Call) and call.args)


def _named(node: cst.SimpleString, value: str, module: Module) -> Finding:
    function = _called_with(node, module)
    if function in _IMPORTERS:
        return _blocked(node, f"{value} is imported by name at run time")
    if _is_loaded_module(node, module):
        return _blocked(node, f"{value} is taken by its name from the modules that are loaded")
    if function and _ASKS.search(function):
        return _blocked(node, f"{function}() is given the name of {value}, and what it does with it cannot be seen")
    if value.lower() == "horovod":
        message = "the string selects Horovod by configuration; what it selects must change with it"
        return Finding(node, "review", message)
    if any(not isinstance(call.args[0].value, cst.SimpleString) for call in _imports_by_name(module)):
        return _blocked(node, f"the string names {value}, and this file imports modules by names that it computes")
    return Finding(node, "review", f"the string names {value}, which the migrated program does not call")


def in_annotations(
    module: Module, bindings: Sequence[Binding], symbols: Symbols
) -> Iterator[tuple[cst.SimpleString, tuple[tuple[Span, Site], ...]]]:
    """Annotations in quotes that name Horovod, with the place in the string of each use."""
    known = {binding.name for binding in bindings}
    for node in module.index.strings if known else ():
        if _is_annotation(node, module):
            found = tuple(_chains(node, known, module, symbols))
            if found:
                yield node, found


def _chains(
    node: cst.SimpleString, known: Collection[str], module: Module, symbols: Symbols
) -> Iterator[tuple[Span, Site]]:
    scope = module.index.scope_of(node)
    for chain in _CHAIN.finditer(node.value):
        root, _, rest = chain[0].partition(".")
        bindings = scope.lookup(root) if root in known else ()
        if bindings and (head := symbols.symbol(bindings[0], module)):
            use = cst.parse_expression(chain[0])
            symbol = symbols.canonical(f"{head}.{rest}")
            yield Span(*chain.span()), Site(symbol, use, None, module, scope, module.index.scope, is_annotation=True)


def in_type_comments(module: Module, bindings: Sequence[Binding], symbols: Symbols) -> Iterator[tuple[Span, Site]]:
    """Uses that no parser sees: ``# type: (hvd.Compression) -> None``."""
    known = {b.name: b for b in bindings if b.scope.kind == "module"}
    if not known or "type:" not in module.text:
        return
    for comment in comment_spans(module.text):
        text = module.text[comment.start : comment.end]
        if not _TYPE_COMMENT.match(text):
            continue
        for chain in _CHAIN.finditer(text):
            root, _, rest = chain[0].partition(".")
            if root in known:
                span = Span(comment.start + chain.start(), comment.start + chain.end())
                symbol = symbols.canonical(f"{symbols.symbol(known[root], module)}.{rest}")
                scope = module.index.scope
                yield span, Site(symbol, cst.parse_expression(chain[0]), None, module, scope, scope)


def _in_all(node: cst.CSTNode, module: Module) -> bool:
    for holder in module.index.ancestors(node):
        if isinstance(holder, cst.Assign):
            return any(dotted_name(target.target) == "__all__" for target in holder.targets)
        if isinstance(holder, cst.AugAssign):
            return dotted_name(holder.target) == "__all__"
    return False


def _is_annotation(node: cst.CSTNode, module: Module) -> bool:
    return any(isinstance(holder, cst.Annotation) for holder in module.index.ancestors(node))


def _blocked(node: cst.CSTNode, message: str) -> Finding:
    return Finding(node, "blocked", message)
