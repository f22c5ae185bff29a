"""Which function a call reaches, and which parameter each of its arguments is for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from migrator.bindings import Binding, Reference, Scope, dotted_name

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

    def parameter(self, name: str) -> cst.Param | None:
        """The parameter of this name, where it is neither starred nor positional only."""
        return next((p for p in self.parameters if p.name.value == name), None)

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

    def reached(self, call: cst.Call, module: Module) -> list[Definition]:
        """The functions that ``call`` may mean, by their name; none where it means anything else."""
        if isinstance(call.func, cst.Name):
            bindings = module.index.scope_of(call).lookup(call.func.value)
            if not bindings or not all(_is_own(binding, module) for binding in bindings):
                return []
            return [found for binding in bindings for found in self.bound(binding, module)]
        if isinstance(call.func, cst.Attribute):
            if call.func.attr.value == "__init__":
                return self.named(*_bases_around(call, module))
            return self.named(call.func.attr.value)
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
            return found, "its parameter is starred, or cannot be given by name"
        if parameter.default is not None:
            found.append(Given(definition.module, parameter, parameter.default))
        called = definition.function.name.value
        for module, call in self.calls(definition):
            if not isinstance(call, cst.Call):
                if _is_handed_on(call, module, definition):
                    return found, f"{called} is used as a value, so its callers are not in sight"
                continue
            if any(argument.star for argument in call.args):
                return found, f"a call of {called} has starred arguments"
            for argument in call.args:
                if parameter_of(definition.function, call, argument, is_bound=definition.is_bound) == name:
                    found.append(Given(module, argument, argument.value))
        return found, ""

    def calls(self, definition: Definition) -> Iterator[tuple[Module, cst.CSTNode]]:
        """Every place that may call ``definition``: a call, or the node that names it where it is not called."""
        for name in self.called_as(definition):
            for module in self.modules:
                attributes = (node for node in module.index.attributes[name] if _may_mean(node, definition, module))
                names = (r.node for r in module.index.references[name] if _may_name(r, definition, module))
                for node in (*names, *attributes):
                    call = module.index.parent(node)
                    yield module, call if isinstance(call, cst.Call) and call.func is node else node
        if definition.function.name.value == "__init__":
            yield from self.calls_of_bases(definition)

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


def _is_handed_on(node: cst.CSTNode, module: Module, definition: Definition) -> bool:
    """Whether naming a function, or a class, may lead to a call of it that is not in sight."""
    holder = module.index.parent(node)
    if definition.function.name.value == "__init__":
        return not isinstance(holder, (cst.Arg, cst.Annotation, cst.Attribute, cst.Comparison, cst.ComparisonTarget))
    return not isinstance(holder, (cst.AssignTarget, cst.Attribute))


def _has_constructor(owner: cst.ClassDef) -> bool:
    return any(isinstance(part, cst.FunctionDef) and part.name.value == "__init__" for part in owner.body.body)


def _bases_around(call: cst.Call, module: Module) -> list[str]:
    """The names of the bases of the class in which ``call`` stands."""
    owner = next((h for h in module.index.ancestors(call) if isinstance(h, cst.ClassDef)), None)
    return [dotted_name(base.value).rpartition(".")[2] for base in owner.bases] if owner is not None else []


def _is_bound(function: cst.FunctionDef, module: Module) -> bool:
    """Whether ``function`` is a method that gets its first parameter from the object it is called on."""
    around = next((h for h in module.index.ancestors(function) if isinstance(h, (cst.ClassDef, cst.FunctionDef))), None)
    static = any(dotted_name(d.decorator) == "staticmethod" for d in function.decorators)
    return isinstance(around, cst.ClassDef) and not static


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
    return definition.is_bound or definition.function.name.value == "__init__" or through_module


def _is_own(binding: Binding, module: Module) -> bool:
    """Whether ``binding`` is a function or class of the module, or comes from another file of the project."""
    if binding.kind == "definition":
        return True
    holder = (binding.symbol or "").rpartition(".")[0]
    return binding.kind == "import" and bool({holder, binding.symbol} & module.project)
