"""Which function a call reaches, and which parameter each of its arguments is for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from migrator.bindings import Binding, Reference, Scope, children_of, dotted_name

if TYPE_CHECKING:
    from migrator.api import Module


def parameter_of(function: cst.FunctionDef, call: cst.Call, argument: cst.Arg, *, is_bound: bool = False) -> str | None:
    """The name of the parameter that ``argument`` is for; None where stars hide it.

    ``is_bound`` says that the first parameter, ``self``, is not among the arguments.
    """
    if argument.star or any(other.star for other in call.args):
        return None
    if argument.keyword is not None:
        return argument.keyword.value
    names = [p.name.value for p in (*function.params.posonly_params, *function.params.params)]
    place = next(n for n, other in enumerate(call.args) if other is argument) + is_bound
    return names[place] if place < len(names) else None


@dataclass(frozen=True, eq=False)
class Definition:
    """A function of the program; ``is_bound`` where calls do not name its first parameter."""

    function: cst.FunctionDef
    module: Module
    is_bound: bool

    @property
    def scope(self) -> Scope:
        """The scope that the function opens."""
        return self.module.index.scopes[id(self.function)]

    @property
    def owner(self) -> cst.ClassDef | None:
        """The class that the function is a method of."""
        return _owner(self.function, self.module)

    def parameter(self, name: str) -> cst.Param | None:
        """The parameter of this name, where it is not starred."""
        parameters = (*self.function.params.posonly_params, *self.parameters)
        return next((p for p in parameters if p.name.value == name), None)

    def receives(self, call: cst.Call, argument: cst.Arg) -> str | None:
        """The name of the parameter that ``argument`` of ``call`` is for; None where stars hide it."""
        is_bound = self.is_bound and not self.is_called_on_class(call)
        return parameter_of(self.function, call, argument, is_bound=is_bound)

    def accepts(self, call: cst.Call) -> bool:
        """Whether the arguments of ``call`` can be those of the function."""
        if any(argument.star for argument in call.args):
            return True
        signature = self.function.params
        given = sum(argument.keyword is None for argument in call.args)
        given += self.is_bound and not self.is_called_on_class(call)
        names = {argument.keyword.value for argument in call.args if argument.keyword is not None}
        in_order = [*signature.posonly_params, *signature.params]
        if given > len(in_order) and not isinstance(signature.star_arg, cst.Param):
            return False
        open_ = [*in_order[given:], *signature.kwonly_params]
        missing = {p.name.value for p in open_ if p.default is None} - names
        unknown = names - {p.name.value for p in open_} if signature.star_kwarg is None else set()
        return not missing and not unknown

    def is_called_on_class(self, call: cst.Call) -> bool:
        """Whether ``call`` gives ``self`` itself: ``Base.__init__(self, ...)``."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != self.function.name.value:
            return False
        if self.owner is None or _is_decorated(self.function, "classmethod"):
            return False
        holder = dotted_name(call.func.value).rpartition(".")[2]
        return holder == self.owner.name.value or (call.func.attr.value == "__init__" and holder not in ("", "self"))

    @property
    def parameters(self) -> Sequence[cst.Param]:
        """The parameters that can be given by name."""
        return (*self.function.params.params, *self.function.params.kwonly_params)


@dataclass(frozen=True, eq=False)
class Given:
    """What a parameter may be given: ``value``, at ``place``: an argument of a call in ``module``, or its default."""

    module: Module
    place: cst.Arg | cst.Param
    value: cst.BaseExpression


def definition_of(function: cst.FunctionDef, module: Module) -> Definition:
    """``function`` of ``module``, with how it is called."""
    return Definition(function, module, _is_bound(function, module))


class Functions:
    """The functions of a program by their names, and who calls them."""

    def __init__(self) -> None:
        self.modules: list[Module] = []

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Definition]]:
        """The functions, under every name that they are called by."""
        found: dict[str, list[Definition]] = defaultdict(list)
        for module in self.modules:
            for function in module.index.functions:
                definition = definition_of(function, module)
                for name in self.called_as(definition):
                    found[name].append(definition)
        return found

    @cached_property
    def aliases(self) -> Mapping[str, Sequence[tuple[Module, str]]]:
        """The other names under which modules import what has a name."""
        found: dict[str, list[tuple[Module, str]]] = defaultdict(list)
        for module in self.modules:
            for scope in (module.index.scope, *module.index.scopes.values()):
                for local, bindings in scope.bindings.items():
                    for name in {(b.symbol or local).rpartition(".")[2] for b in bindings} - {local}:
                        found[name].append((module, local))
        return found

    def reached(self, call: cst.Call, module: Module) -> list[Definition]:
        """The functions that ``call`` may mean, by their name; none where it means anything else."""
        if (own := _own_class(call, module)) is not None:
            return self.named(own.name.value)
        if isinstance(call.func, cst.Name):
            bindings = module.index.scope_of(call).lookup(call.func.value)
            if not bindings or not all(_is_own(binding, module) for binding in bindings):
                return []
            return [found for binding in bindings for found in self.bound(binding, module)]
        if isinstance(call.func, cst.Attribute):
            if call.func.attr.value == "__init__":
                return self.named(*_bases_around(call, module))
            return [found for found in self.named(call.func.attr.value) if found.accepts(call)]
        return []

    def bound(self, binding: Binding, module: Module) -> Iterator[Definition]:
        """The functions that ``binding`` of ``module`` may be: its own, or those of other files of that name."""
        for definition in self.named((binding.symbol or binding.name).rpartition(".")[2]):
            if binding.kind == "import":
                if definition.module is not module:
                    yield definition
            elif isinstance(binding.node, cst.ClassDef) or definition.function is binding.node:
                yield definition

    def named(self, *names: str) -> list[Definition]:
        """The functions, and the constructors of classes, that are called by one of ``names``."""
        return [definition for name in names for definition in self.by_name.get(name, ())]

    def given(self, definition: Definition, name: str) -> tuple[list[Given], str]:
        """What the callers in sight, and its default, give to a parameter; why there may be more, if there may."""
        found: list[Given] = []
        parameter = definition.parameter(name)
        if parameter is None:
            return found, "its parameter is starred"
        if parameter.default is not None:
            found.append(Given(definition.module, parameter, parameter.default))
        called = definition.owner.name.value if definition.owner is not None else ""
        called = called if definition.function.name.value == "__init__" else definition.function.name.value
        if reason := self.hidden(definition):
            return found, reason
        for module, call in self.calls(definition):
            if not isinstance(call, cst.Call):
                if _is_handed_on(call, module, definition):
                    return found, f"{called} is used as a value, so its callers are not in sight"
                continue
            if any(argument.star for argument in call.args):
                return found, f"a call of {called} has starred arguments"
            for argument in call.args:
                if definition.receives(call, argument) == name:
                    found.append(Given(module, argument, argument.value))
        return found, ""

    def hidden(self, definition: Definition) -> str:
        """Why ``definition`` may be called in ways that do not show; empty where it is not."""
        name = definition.function.name.value
        if name.startswith("__") and name.endswith("__") and name != "__init__":
            return f"{name} is called without being named"
        if name == "__init__" and definition.owner is not None and _defines(definition.owner, "__new__"):
            return f"what {definition.owner.name.value} is given goes to its __new__ too"
        for decorator in definition.function.decorators:
            node = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
            found = self.named(dotted_name(node).rpartition(".")[2])
            if found and not all(_passes_on(other.function) for other in found):
                return f"{name} is called by its decorator {dotted_name(node)}"
        return ""

    def calls(self, definition: Definition) -> Iterator[tuple[Module, cst.CSTNode]]:
        """Every place that may call ``definition``: a call, or the node that names it where it is not called."""
        for name in self.called_as(definition):
            for module in self.modules:
                attributes = (node for node in module.index.attributes[name] if _may_mean(node, definition, module))
                names = (r.node for r in module.index.references[name] if _may_name(r, definition, module))
                for node in (*names, *attributes):
                    yield module, _call_of(node, module)
            for module, local in self.aliases.get(name, ()):
                for reference in module.index.references[local]:
                    if any((b.symbol or "").endswith(f".{name}") for b in reference.scope.lookup(local)):
                        yield module, _call_of(reference.node, module)
        if definition.function.name.value == "__init__":
            yield from self.calls_of_bases(definition)
            yield from self.calls_within(definition)

    def calls_within(self, definition: Definition) -> Iterator[tuple[Module, cst.CSTNode]]:
        """``cls(...)`` and ``type(self)(...)`` that reach the constructor ``definition``."""
        names = set(self.called_as(definition))
        for module in self.modules:
            nodes = [reference.node for name in ("cls", "type") for reference in module.index.references[name]]
            for node in (*nodes, *module.index.attributes["__class__"]):
                for call in (module.index.parent(node), module.index.parent(_call_of(node, module))):
                    own = _own_class(call, module) if isinstance(call, cst.Call) else None
                    if call is not None and own is not None and own.name.value in names:
                        yield module, call

    def calls_of_bases(self, definition: Definition) -> Iterator[tuple[Module, cst.CSTNode]]:
        """``super().__init__(...)`` and ``Base.__init__(self, ...)`` that reach the constructor ``definition``."""
        for module in self.modules:
            for node in module.index.attributes["__init__"]:
                call = module.index.parent(node)
                if isinstance(call, cst.Call) and call.func is node:
                    names = _bases_around(call, module)
                    if any(found.function is definition.function for found in self.named(*names)):
                        yield module, call

    def called_as(self, definition: Definition) -> Iterator[str]:
        """The name by which a function is called; of a constructor, the names of its class and its heirs."""
        if definition.function.name.value != "__init__":
            yield definition.function.name.value
            return
        holders = definition.module.index.ancestors(definition.function)
        owner = next((holder for holder in holders if isinstance(holder, cst.ClassDef)), None)
        if owner is not None:
            yield from self.with_heirs(owner.name.value, set())

    def with_heirs(self, name: str, seen: set[str]) -> Iterator[str]:
        """``name`` and the classes that have no constructor of their own and inherit that of ``name``."""
        if name in seen:
            return
        seen.add(name)
        yield name
        for module in self.modules:
            for reference in module.index.references[name]:
                argument = module.index.parent(reference.node)
                owner = module.index.parent(argument) if isinstance(argument, cst.Arg) else None
                if isinstance(owner, cst.ClassDef) and not _has_constructor(owner):
                    yield from self.with_heirs(owner.name.value, seen)


_LOOKS_ONLY = ("isinstance", "issubclass", "super", "cast")


def _is_handed_on(node: cst.CSTNode, module: Module, definition: Definition) -> bool:
    """Whether naming a function, or a class, may lead to a call of it that is not in sight."""
    holder = module.index.parent(node)
    if definition.function.name.value != "__init__":
        return not isinstance(holder, (cst.AssignTarget, cst.Attribute))
    if isinstance(holder, cst.Arg):
        call = module.index.parent(holder)
        return isinstance(call, cst.Call) and dotted_name(call.func).rpartition(".")[2] not in _LOOKS_ONLY
    if isinstance(holder, (cst.Attribute, cst.Comparison, cst.ComparisonTarget)):
        return False
    return not any(isinstance(around, cst.Annotation) for around in module.index.ancestors(node))


def _call_of(node: cst.CSTNode, module: Module) -> cst.CSTNode:
    """The call that ``node`` is the function of, or ``node`` itself."""
    call = module.index.parent(node)
    return call if isinstance(call, cst.Call) and call.func is node else node


def _own_class(call: cst.Call, module: Module) -> cst.ClassDef | None:
    """The class around ``call`` where that makes another object of it: ``cls(...)``, ``type(self)(...)``."""
    func = call.func
    is_type = isinstance(func, cst.Call) and dotted_name(func.func) == "type" and len(func.args) == 1
    if is_type or dotted_name(func) in ("cls", "self.__class__"):
        return next((h for h in module.index.ancestors(call) if isinstance(h, cst.ClassDef)), None)
    return None


def _passes_on(decorator: cst.FunctionDef) -> bool:
    """Whether what ``decorator`` makes of a function takes what that takes: ``(*args, **kwargs)``."""
    inner = [found for found in _functions_in(decorator.body) if len(found.params.params) != 1]
    return bool(inner) and all(
        isinstance(f.params.star_arg, cst.Param) and f.params.star_kwarg is not None and not f.params.params
        for f in inner
    )


def _functions_in(node: cst.CSTNode) -> Iterator[cst.FunctionDef]:
    for child in children_of(node):
        if isinstance(child, cst.FunctionDef):
            yield child
        yield from _functions_in(child)


def _has_constructor(owner: cst.ClassDef) -> bool:
    return _defines(owner, "__init__")


def _defines(owner: cst.ClassDef, name: str) -> bool:
    return any(isinstance(part, cst.FunctionDef) and part.name.value == name for part in owner.body.body)


def _bases_around(call: cst.Call, module: Module) -> list[str]:
    """The names of the bases of the class in which ``call`` stands."""
    owner = next((h for h in module.index.ancestors(call) if isinstance(h, cst.ClassDef)), None)
    return [dotted_name(base.value).rpartition(".")[2] for base in owner.bases] if owner is not None else []


def _is_bound(function: cst.FunctionDef, module: Module) -> bool:
    """Whether ``function`` is a method that gets its first parameter from the object it is called on."""
    return _owner(function, module) is not None and not _is_decorated(function, "staticmethod")


def _owner(function: cst.FunctionDef, module: Module) -> cst.ClassDef | None:
    """The class that ``function`` is a method of."""
    around = next((h for h in module.index.ancestors(function) if isinstance(h, (cst.ClassDef, cst.FunctionDef))), None)
    return around if isinstance(around, cst.ClassDef) else None


def _is_decorated(function: cst.FunctionDef, name: str) -> bool:
    return any(dotted_name(decorator.decorator) == name for decorator in function.decorators)


def _may_name(reference: Reference, definition: Definition, module: Module) -> bool:
    """Whether ``reference``, of the name of ``definition``, may be it: other files have functions of that name too."""
    bindings = reference.scope.lookup(reference.node.value)
    if module is definition.module or definition.function.name.value == "__init__":
        return True
    return any(binding.kind == "import" for binding in bindings) or not bindings


def _may_mean(node: cst.Attribute, definition: Definition, module: Module) -> bool:
    """Whether ``node``, called like ``definition``, may be it: a plain function is found through a module only."""
    root = dotted_name(node.value).partition(".")[0]
    bindings = module.index.scope_of(node).lookup(root) if root else ()
    through_module = bool(bindings) and all(binding.kind == "import" for binding in bindings)
    return definition.owner is not None or definition.function.name.value == "__init__" or through_module


def _is_own(binding: Binding, module: Module) -> bool:
    """Whether ``binding`` is a function or class of the module, or comes from another file of the project."""
    if binding.kind == "definition":
        return True
    holder = (binding.symbol or "").rpartition(".")[0]
    return binding.kind == "import" and bool({holder, binding.symbol} & module.project)
