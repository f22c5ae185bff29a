"""Which expressions of a program are the model that an engine is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from migrator.api import Definition, Module, Scope, cst, definition_of, dotted_name

from ..values import is_constant


@dataclass(frozen=True, eq=False)
class Given:
    """A call that gives the model to a parameter: the argument's value, and its keyword if it has one."""

    module: Module
    value: cst.BaseExpression
    keyword: cst.Name | None


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter that every caller gives the model."""

    definition: Definition
    name: str
    given: tuple[Given, ...]

    @property
    def key(self) -> tuple[int, str]:
        """What tells it from others."""
        return id(self.definition.function), self.name

    def references(self) -> Iterator[cst.Name]:
        """Where it is read."""
        for reference in self.definition.module.index.references[self.name]:
            if reference.scope.home(self.name) is self.definition.scope:
                yield reference.node


@dataclass(frozen=True, eq=False)
class Model:
    """The model as the code that wraps its optimizer names it: a variable of ``home``, or an attribute of self."""

    node: cst.BaseExpression
    module: Module
    home: Scope | None

    @property
    def is_attribute(self) -> bool:
        """Whether it is kept in an object."""
        return isinstance(self.node, cst.Attribute)

    @property
    def name(self) -> str:
        """Its last name."""
        return dotted_name(self.node).rpartition(".")[2]

    def is_known(self, node: cst.CSTNode, module: Module) -> bool:
        """Whether ``node`` is the model."""
        return self.is_variable(node, module) or self.parameter(node, module) is not None

    def is_variable(self, node: cst.CSTNode, module: Module) -> bool:
        """Whether ``node`` is the very variable or attribute."""
        if module is not self.module or not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        if dotted_name(node) != dotted_name(self.node):
            return False
        if isinstance(node, cst.Attribute):
            return class_around(node, module) is class_around(self.node, module)
        return module.index.scope_of(node).home(node.value) is self.home

    def parameter(
        self, node: cst.CSTNode, module: Module, seen: frozenset[tuple[int, str]] = frozenset()
    ) -> Parameter | None:
        """The parameter that ``node`` names, where every call in sight gives it the model."""
        if not isinstance(node, cst.Name) or self.is_variable(node, module):
            return None
        bindings = module.index.scope_of(node).lookup(node.value)
        function = bindings[0].scope.node if len(bindings) == 1 and bindings[0].kind == "parameter" else None
        if not isinstance(function, cst.FunctionDef) or (id(function), node.value) in seen:
            return None
        definition = definition_of(function, module)
        given, more = module.functions.given(definition, node.value)
        calls = [g for g in given if isinstance(g.place, cst.Arg)]
        if more or not calls or any(not is_constant(g.value, "None") for g in given if g not in calls):
            return None
        seen = seen | {(id(function), node.value)}
        if not all(self.is_variable(g.value, g.module) or self.parameter(g.value, g.module, seen) for g in calls):
            return None
        places = (Given(g.module, g.value, g.place.keyword if isinstance(g.place, cst.Arg) else None) for g in calls)
        return Parameter(definition, node.value, tuple(places))


def class_around(node: cst.CSTNode, module: Module) -> cst.CSTNode | None:
    """The class whose code ``node`` is; None outside of one."""
    return next((holder for holder in module.index.ancestors(node) if isinstance(holder, cst.ClassDef)), None)


def function_of(node: cst.CSTNode, module: Module) -> cst.CSTNode:
    """The function, or module, whose code ``node`` is."""
    kinds = (cst.FunctionDef, cst.Lambda)
    return next((holder for holder in module.index.ancestors(node) if isinstance(holder, kinds)), module.index.tree)
