"""Who holds an object of Horovod's in a module, and what is asked of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from migrator.api import Binding, Module, Site, cst, dotted_name, parameter_of

from .functions import local_function
from .guards import calls_of


@dataclass(eq=False)
class Followed:
    """The expressions of a module that stand for one object, by the identity of each."""

    module: Module
    seen: dict[int, cst.BaseExpression] = field(default_factory=dict)
    lists: set[int] = field(default_factory=set)

    def follow(self, node: cst.BaseExpression) -> Followed:
        """Add ``node`` and whatever holds its value afterwards."""
        if id(node) in self.seen:
            return self
        self.seen[id(node)] = node
        holder = self.module.index.parent(node)
        if isinstance(holder, (cst.Assign, cst.AnnAssign)) and holder.value is node:
            for target in _targets(holder):
                self.hold(target)
        elif isinstance(holder, cst.BooleanOperation) or (isinstance(holder, cst.IfExp) and holder.test is not node):
            self.follow(holder)
        elif isinstance(holder, cst.Element):
            self.follow_list(self.module.index.parent(holder))
        elif isinstance(holder, (cst.ListComp, cst.GeneratorExp)) and holder.elt is node:
            self.follow_list(holder)
        elif isinstance(holder, cst.Arg):
            self.follow_argument(holder)
        elif isinstance(holder, cst.Param):
            self.follow_default(holder)
        elif isinstance(holder, cst.Return):
            self.follow_return(holder)
        return self

    def hold(self, target: cst.CSTNode) -> None:
        if isinstance(target, (cst.Name, cst.Attribute)):
            for use in self.uses(target):
                self.follow(use)

    def uses(self, target: cst.Name | cst.Attribute) -> Iterator[cst.BaseExpression]:
        """Where the value of ``target`` is read."""
        index = self.module.index
        if isinstance(target, cst.Attribute):
            name = dotted_name(target)
            yield from (a for a in index.attributes[target.attr.value] if a is not target and dotted_name(a) == name)
            return
        home = index.scope_of(target).home(target.value)
        yield from (r.node for r in index.references[target.value] if r.scope.home(target.value) is home)

    def follow_list(self, node: cst.CSTNode | None) -> None:
        """What a list holds: by index, and in loops over it."""
        if node is None or id(node) in self.lists:
            return
        self.lists.add(id(node))
        holder = self.module.index.parent(node)
        if isinstance(holder, (cst.For, cst.CompFor)) and holder.iter is node:
            self.hold(holder.target)
        elif isinstance(holder, (cst.Assign, cst.AnnAssign)) and holder.value is node:
            for target in _targets(holder):
                if isinstance(target, (cst.Name, cst.Attribute)):
                    for use in self.uses(target):
                        self.follow_list(use)
        elif isinstance(holder, cst.Subscript) and holder.value is node:
            self.follow(holder)

    def follow_argument(self, argument: cst.Arg) -> None:
        call = self.module.index.parent(argument)
        function = local_function(call.func, self.module) if isinstance(call, cst.Call) else None
        if isinstance(call, cst.Call) and function is not None:
            self.follow_parameter(function, parameter_of(function, call, argument) or "")

    def follow_default(self, parameter: cst.Param) -> None:
        holders = self.module.index.ancestors(parameter)
        function = next((h for h in holders if not isinstance(h, cst.Parameters)), None)
        if isinstance(function, (cst.FunctionDef, cst.Lambda)):
            self.follow_parameter(function, parameter.name.value)

    def follow_return(self, statement: cst.Return) -> None:
        holders = self.module.index.ancestors(statement)
        function = next((h for h in holders if isinstance(h, cst.FunctionDef)), None)
        for call in calls_of(function, self.module) if function is not None else ():
            self.follow(call)

    def follow_parameter(self, function: cst.FunctionDef | cst.Lambda, name: str) -> None:
        """What is done with the parameter of a function that gets the object."""
        scope = self.module.index.scopes[id(function)]
        if name in scope.bindings:
            for reference in self.module.index.references[name]:
                if reference.scope.home(name) is scope:
                    self.follow(reference.node)

    def attributes(self, names: Collection[str]) -> Iterator[cst.Attribute]:
        """The attributes among ``names`` that are asked of the object."""
        for node in self.seen.values():
            holder = self.module.index.parent(node)
            if isinstance(holder, cst.Attribute) and holder.value is node and holder.attr.value in names:
                yield holder

    def members(self, owner: str, names: Collection[str], home: Site) -> Iterator[Site]:
        """A site for each attribute among ``names`` that is asked of the object, of the class ``owner``."""
        index = self.module.index
        for node in self.attributes(names):
            holder = index.parent(node)
            call = holder if isinstance(holder, cst.Call) and holder.func is node else None
            yield Site(f"{owner}.{node.attr.value}", node, call, self.module, index.scope_of(node), home.home)


def _targets(statement: cst.Assign | cst.AnnAssign) -> Iterator[cst.BaseExpression]:
    if isinstance(statement, cst.AnnAssign):
        yield statement.target
    else:
        yield from (target.target for target in statement.targets)


def annotated(site: Site) -> cst.Param | None:
    """The parameter of which ``site`` is the annotation."""
    holder = site.module.index.parent(site.node)
    parameter = site.module.index.parent(holder) if isinstance(holder, cst.Annotation) else None
    return parameter if isinstance(parameter, cst.Param) else None


def only_binding(node: cst.BaseExpression, module: Module) -> Binding | None:
    """The one binding of the name that ``node`` is."""
    if not isinstance(node, cst.Name):
        return None
    found = module.index.scope_of(node).lookup(node.value)
    return found[0] if len(found) == 1 else None
