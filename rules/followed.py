"""Who holds an object of Horovod's in a program, and what is asked of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from migrator.api import Binding, Module, Scope, Site, cst, definition_of, dotted_name, parameter_of

from .values import is_of_project

_ADDING = ("append", "add", "insert", "setdefault")
_PASSING = ("list", "tuple", "set", "sorted", "reversed", "iter", "enumerate", "zip", "values", "items", "copy")
_TAKING = ("get", "pop", "setdefault", "next")
_PARTS = (cst.Element, cst.DictElement, cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)


@dataclass(eq=False)
class Followed:
    """The expressions of a program that stand for one object, or for a container of it, ``depth`` levels deep."""

    module: Module
    seen: dict[tuple[int, int], cst.CSTNode] = field(default_factory=dict)

    def follow(self, node: cst.CSTNode, depth: int = 0) -> Followed:
        """Add ``node`` and whatever holds its value afterwards."""
        if (id(node), depth) in self.seen or not 0 <= depth <= 2:
            return self
        self.seen[id(node), depth] = node
        module = self.module.holding(node)
        holder = module.index.parent(node)
        if isinstance(holder, (cst.Assign, cst.AnnAssign, cst.NamedExpr)) and holder.value is node:
            for target in _targets(holder):
                self.hold(target, module, depth)
        elif isinstance(holder, (cst.For, cst.CompFor)) and holder.iter is node:
            self.hold(holder.target, module, depth - 1)
        elif isinstance(holder, _PARTS) and node is not getattr(holder, "key", None):
            whole = module.index.parent(holder) if isinstance(holder, cst.BaseElement | cst.DictElement) else holder
            if whole is not None:
                self.follow(whole, depth + 1)
        elif isinstance(holder, cst.Subscript) and holder.value is node:
            self.follow(holder, depth - 1)
        elif isinstance(holder, cst.BooleanOperation) or (isinstance(holder, cst.IfExp) and holder.test is not node):
            self.follow(holder, depth)
        else:
            self.follow_further(node, holder, module, depth)
        return self

    def follow_further(self, node: cst.CSTNode, holder: cst.CSTNode | None, module: Module, depth: int) -> None:
        """Into functions and out of them."""
        call = module.index.parent(holder) if holder is not None else None
        if isinstance(holder, cst.Arg) and isinstance(call, cst.Call):
            self.follow_argument(holder, call, module, depth)
        elif isinstance(holder, cst.Attribute) and isinstance(call, cst.Call) and depth:
            self.follow_taken(holder.attr.value, call, depth)
        elif isinstance(holder, cst.Param):
            self.follow_default(holder, depth)
        elif isinstance(holder, cst.Return):
            function = next((h for h in module.index.ancestors(holder) if isinstance(h, cst.FunctionDef)), None)
            for _, found in module.functions.calls(definition_of(function, module)) if function is not None else ():
                if isinstance(found, cst.Call):
                    self.follow(found, depth)

    def follow_argument(self, argument: cst.Arg, call: cst.Call, module: Module, depth: int) -> None:
        """Into the container that the object is added to, or the functions that get it."""
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted_name(call.func)
        if isinstance(call.func, cst.Attribute) and name in _ADDING:
            self.hold(call.func.value, module, depth + 1)
        self.follow_taken(name, call, depth)
        for function in module.functions.reached(call, module):
            parameter = parameter_of(function.function, call, argument, is_bound=function.is_bound)
            self.follow_parameter(function.scope, function.module, parameter or "", depth)

    def follow_taken(self, name: str, call: cst.Call, depth: int) -> None:
        """Out of a container that ``call``, of a function called ``name``, copies or takes something from."""
        if depth and name in (*_PASSING, *_TAKING):
            self.follow(call, depth - (name in _TAKING))

    def follow_default(self, parameter: cst.Param, depth: int = 0) -> None:
        """The parameter, of which the object is the default."""
        module = self.module.holding(parameter)
        holders = module.index.ancestors(parameter)
        function = next((h for h in holders if not isinstance(h, cst.Parameters)), None)
        if isinstance(function, (cst.FunctionDef, cst.Lambda)):
            self.follow_parameter(module.index.scopes[id(function)], module, parameter.name.value, depth)

    def follow_parameter(self, scope: Scope, module: Module, name: str, depth: int = 0) -> None:
        """What is done with the parameter of a function, which opens ``scope``, that gets the object."""
        if name in scope.bindings:
            for reference in module.index.references[name]:
                if reference.scope.home(name) is scope:
                    self.follow(reference.node, depth)

    def hold(self, target: cst.CSTNode, module: Module, depth: int) -> None:
        """What is done with the variable, the attribute or the container that the object goes into."""
        if isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self.hold(element.value, module, depth)
        elif isinstance(target, cst.Subscript):
            self.hold(target.value, module, depth + 1)
        elif isinstance(target, cst.Attribute):
            for attribute in _attributes_like(target, module):
                self.follow(attribute, depth)
        elif isinstance(target, cst.Name):
            for use in _uses(target, module):
                self.follow(use, depth)

    def attributes(self, names: Collection[str]) -> Iterator[tuple[Module, cst.Attribute]]:
        """The attributes among ``names`` that are asked of the object, with their modules."""
        for (_, depth), node in self.seen.items():
            module = self.module.holding(node)
            holder = module.index.parent(node)
            if not depth and isinstance(holder, cst.Attribute) and holder.value is node and holder.attr.value in names:
                yield module, holder

    def members(self, owner: str, names: Collection[str], home: Site) -> Iterator[Site]:
        """A site for each attribute among ``names`` that is asked of the object, of the class ``owner``."""
        for module, node in self.attributes(names):
            holder = module.index.parent(node)
            call = holder if isinstance(holder, cst.Call) and holder.func is node else None
            known = home.home if module is home.module else module.index.scope
            yield Site(f"{owner}.{node.attr.value}", node, call, module, module.index.scope_of(node), known)


def _targets(statement: cst.Assign | cst.AnnAssign | cst.NamedExpr) -> Iterator[cst.BaseExpression]:
    if isinstance(statement, cst.Assign):
        yield from (target.target for target in statement.targets)
    else:
        yield statement.target


def _uses(target: cst.Name, module: Module) -> Iterator[cst.BaseExpression]:
    """Where the variable ``target`` is read, in other files too if it is one of the module."""
    name, home = target.value, module.index.scope_of(target).home(target.value)
    yield from (r.node for r in module.index.references[name] if r.scope.home(name) is home)
    if home is not module.index.scope:
        return
    for other in module.functions.modules:
        if other is not module:
            roots = (*((r.node, r.node) for r in other.index.references[name]), *_first_names(other, name))
            yield from (node for node, root in roots if _is_import(root, other))


def _first_names(module: Module, name: str) -> Iterator[tuple[cst.Attribute, cst.Name]]:
    """The attributes of this name that are asked of a name."""
    for node in module.index.attributes[name]:
        if isinstance(node.value, cst.Name):
            yield node, node.value


def _is_import(name: cst.Name, module: Module) -> bool:
    """Whether ``name`` comes from another file of the program."""
    bindings = module.index.scope_of(name).lookup(name.value)
    return any(is_of_project(binding.symbol or "", module) for binding in bindings)


def _attributes_like(target: cst.Attribute, module: Module) -> Iterator[cst.Attribute]:
    """The attributes of this name of any object; of ``self``, those of a class that stores nothing else there."""
    own = _class_around(target, module)
    for other in module.functions.modules:
        found = other.index.attributes[target.attr.value]
        stores = {id(_class_around(node, other)) for node in found if _is_stored(node, other)}
        for node in found:
            around = _class_around(node, other)
            if dotted_name(node.value) != "self" or around is own or id(around) not in stores:
                yield node


def _is_stored(node: cst.Attribute, module: Module) -> bool:
    return isinstance(module.index.parent(node), (cst.AssignTarget, cst.AnnAssign))


def _class_around(node: cst.CSTNode, module: Module) -> cst.ClassDef | None:
    return next((holder for holder in module.index.ancestors(node) if isinstance(holder, cst.ClassDef)), None)


def annotated(site: Site) -> cst.Param | None:
    """The parameter of which ``site`` is the annotation, or a part of it, as in ``Optional[ProcessSet]``."""
    holders = site.module.index.ancestors(site.node)
    annotation = next((holder for holder in holders if isinstance(holder, cst.Annotation)), None)
    parameter = next(holders, None)
    return parameter if annotation is not None and isinstance(parameter, cst.Param) else None


def only_binding(node: cst.BaseExpression, module: Module) -> Binding | None:
    """The one binding of the name that ``node`` is."""
    if not isinstance(node, cst.Name):
        return None
    found = module.index.scope_of(node).lookup(node.value)
    return found[0] if len(found) == 1 else None
