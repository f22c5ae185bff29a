"""Every use of the model that DDP would wrap: what it becomes, and whether the wrap can be shown right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from migrator.api import Index, Module, Scope, Site, children_of, cst, dotted_name, parameter_of

from ..guards import calls_of, runs_on_some_ranks
from ..values import is_constant, is_of_project, symbol_of
from .functions import local_function
from .gradient_free import is_without_gradients

When = Literal["before", "after"]

AS_BEFORE = frozenset({"train", "eval", "zero_grad", "parameters", "buffers"})
THROUGH_MODULE = frozenset(
    {"state_dict", "load_state_dict", "named_parameters", "named_buffers", "named_modules", "named_children", "modules"}
)
MOVES = frozenset({"cuda", "to", "cpu", "half", "float", "double", "bfloat16", "requires_grad_"})
RETURNS_MODEL = MOVES | {"train", "eval", "apply", "share_memory", "to_empty", "type"}
TENSOR_ATTRIBUTES = frozenset({"data", "shape", "dtype", "device", "T", "grad", "requires_grad", "ndim", "is_cuda"})
HARMLESS = frozenset({"print", "len", "str", "repr", "id", "isinstance", "type", "hasattr"})
WRAPPERS = frozenset({"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "initialize"})
REBUILDS = frozenset({"torch.compile", "torch.nn.SyncBatchNorm.convert_sync_batchnorm"})


@dataclass(frozen=True)
class Uses:
    """What was found: forwards of the model, uses that go through ``.module``, and what speaks against DDP."""

    forwards: list[cst.Call] = field(default_factory=list)
    unwrapped: list[cst.BaseExpression] = field(default_factory=list)
    guarded: list[cst.BaseExpression] = field(default_factory=list)
    evaluated: list[cst.BaseExpression] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    late: list[cst.CSTNode] = field(default_factory=list)


@dataclass(frozen=True)
class Tracker:
    """Follows one model through its module: ``name`` in ``home``, or the attribute ``name`` of any object."""

    module: Module
    name: str
    home: Scope | None
    wrap: cst.CSTNode
    dropped: tuple[cst.CSTNode, ...]
    uses: Uses
    seen: set[tuple[int, str]] = field(default_factory=set)

    @property
    def index(self) -> Index:
        """The bindings of the module."""
        return self.module.index

    def references(self) -> Iterator[cst.BaseExpression]:
        """The places where the model is read."""
        if self.home is None:
            yield from self.index.attributes[self.name]
            return
        for reference in self.index.references[self.name]:
            if reference.scope.home(self.name) is self.home:
                yield reference.node

    def follow(self) -> None:
        """Look at every use of the model."""
        for node in self.references():
            if not self.is_assigned(node) and not self.is_dropped(node):
                self.look(node, self.when(node))

    def is_assigned(self, node: cst.BaseExpression) -> bool:
        return isinstance(self.index.parent(node), (cst.AssignTarget, cst.AnnAssign))

    def is_dropped(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` stands in a call that the migration takes away."""
        holders = {id(holder) for holder in self.index.ancestors(node)}
        return any(id(call) in holders for call in self.dropped)

    def when(self, node: cst.CSTNode) -> When:
        """Before the wrap only where the text says so in the function that wraps; functions run later."""
        here, there = self.function_of(node), self.function_of(self.wrap)
        if here is not there and isinstance(here, cst.FunctionDef) and self.runs_early(here):
            self.doubt(f"{here.name.value}() uses the model and may run before the place where it would be wrapped")
        same = here is there
        return "before" if same and self.index.before(node, self.wrap) else "after"

    def runs_early(self, function: cst.FunctionDef, depth: int = 0) -> bool:
        """Whether ``function`` is called, by others in the module too, before the wrap."""
        for call in calls_of(function, self.module):
            caller = self.function_of(call)
            if caller is self.function_of(self.wrap):
                if self.index.before(call, self.wrap):
                    return True
            elif isinstance(caller, cst.FunctionDef) and depth < 3 and self.runs_early(caller, depth + 1):
                return True
        return False

    def function_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        holders = self.index.ancestors(node)
        return next((h for h in holders if isinstance(h, (cst.FunctionDef, cst.Lambda))), None)

    def look(self, node: cst.BaseExpression, when: When) -> None:
        holder = self.index.parent(node)
        if isinstance(holder, cst.Call) and holder.func is node:
            self.forward(node, holder, when)
        elif isinstance(holder, cst.Attribute) and holder.value is node:
            self.attribute(node, holder, when)
        elif isinstance(holder, cst.Arg):
            self.argument(node, holder, when)
        elif not isinstance(holder, (cst.Comparison, cst.ComparisonTarget)):
            self.doubt("the model gets another name, or leaves the function")

    def doubt(self, reason: str) -> None:
        if reason not in self.uses.doubts:
            self.uses.doubts.append(reason)

    def forward(self, node: cst.BaseExpression, call: cst.Call, when: When) -> None:
        if when == "before":
            self.doubt("the model runs before the place where it would be wrapped")
        elif self.is_guarded(node):
            self.uses.guarded.append(node)
        elif self.is_evaluation(node):
            self.uses.evaluated.append(node)
        else:
            self.uses.forwards.append(call)
            if not self.is_used_whole(call):
                self.doubt("a part of what the model returns is not used, so that some layers may take no part")

    def is_used_whole(self, call: cst.Call) -> bool:
        """Whether nothing of a forward's result is visibly dropped: ``model(x)[0]``, ``y, _ = model(x)``."""
        holder = self.index.parent(call)
        if isinstance(holder, cst.Subscript):
            return False
        target = holder.targets[0].target if isinstance(holder, cst.Assign) and len(holder.targets) == 1 else None
        if isinstance(target, (cst.Tuple, cst.List)):
            names = [dotted_name(element.value) for element in target.elements]
            return all(name and any(map(self.is_always_read, self.results(name, call))) for name in names)
        if isinstance(target, cst.Name):
            return not any(self.is_part(node) for node in self.results(target.value, call))
        return True

    def results(self, name: str, call: cst.Call) -> list[cst.Name]:
        """Where the function that calls the model reads its result by ``name``."""
        home = self.index.scope_of(call).home(name)
        return [r.node for r in self.index.references[name] if r.scope.home(name) is home]

    def is_always_read(self, node: cst.CSTNode) -> bool:
        """Whether no condition decides if ``node`` is read, inside the loop or function around it."""
        for holder in self.index.ancestors(node):
            if isinstance(holder, (cst.For, cst.While, cst.FunctionDef)):
                return True
            if isinstance(holder, (cst.If, cst.IfExp)):
                return False
        return True

    def is_part(self, node: cst.CSTNode) -> bool:
        """Whether only a part of the result is read: ``outputs[0]``, ``outputs["logits"]``, ``outputs.loss``."""
        holder = self.index.parent(node)
        if isinstance(holder, cst.Subscript) and holder.value is node:
            parts = [element.slice for element in holder.slice]
            return len(parts) == 1 and isinstance(parts[0], cst.Index) and _is_literal(parts[0].value)
        if not isinstance(holder, cst.Attribute) or holder.value is not node:
            return False
        call = self.index.parent(holder)
        return not isinstance(call, cst.Call) and holder.attr.value not in TENSOR_ATTRIBUTES

    def is_evaluation(self, node: cst.CSTNode) -> bool:
        """Whether no gradient is wanted of the forward at ``node``, or the model was last put into eval mode."""
        if is_without_gradients(node, self.module):
            return True
        if self.is_trained(node):
            return False
        here = self.function_of(node)
        modes = [m for m in (*self.index.attributes["eval"], *self.index.attributes["train"]) if self.is_model(m.value)]
        earlier = [m for m in modes if self.index.before(m, node) and self.function_of(m) is here]
        last = max(earlier, key=lambda mode: self.index.order[id(mode)], default=None)
        return last is not None and (last.attr.value == "eval" or self.is_off(last))

    def is_model(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is called as the model is."""
        return dotted_name(node).rpartition(".")[2] == self.name

    def is_off(self, mode: cst.Attribute) -> bool:
        """Whether ``mode`` is ``train(False)``."""
        call = self.index.parent(mode)
        return isinstance(call, cst.Call) and bool(call.args) and is_constant(call.args[0].value, "False")

    def is_trained(self, node: cst.CSTNode) -> bool:
        """Whether a backward stands in the same loop, or function or module without one, as the forward at ``node``."""
        return any(self.unit(backward) is self.unit(node) for backward in self.index.attributes["backward"])

    def unit(self, node: cst.CSTNode) -> cst.CSTNode:
        """The innermost loop, function or module around ``node``."""
        kinds = (cst.For, cst.While, cst.FunctionDef)
        return next((holder for holder in self.index.ancestors(node) if isinstance(holder, kinds)), self.index.tree)

    def is_guarded(self, node: cst.CSTNode) -> bool:
        """Whether only some ranks get to ``node``."""
        return runs_on_some_ranks(node, self.module)

    def attribute(self, node: cst.BaseExpression, attribute: cst.Attribute, when: When) -> None:
        name = attribute.attr.value
        holder = self.index.parent(attribute)
        called = isinstance(holder, cst.Call) and holder.func is attribute
        if called and name in RETURNS_MODEL and not self.is_given_back(holder):
            self.doubt(f"what {name}() returns, the model itself, gets another name")
        elif when == "before":
            if not called and not isinstance(holder, (cst.AssignTarget, cst.Attribute)):
                self.doubt(f"a part of the model, {name!r}, gets another name")
        elif isinstance(holder, cst.AssignTarget):
            self.uses.unwrapped.append(node)
            self.doubt(f"a part of the model, {name!r}, is replaced after the place where it would be wrapped")
        elif called and name in AS_BEFORE:
            return
        elif called and name in THROUGH_MODULE:
            self.uses.unwrapped.append(node)
            if name == "load_state_dict" and self.is_guarded(node):
                self.uses.late.append(attribute)
        elif called and name in MOVES:
            self.doubt(f"the model is changed by {name}() after the place where it would be wrapped")
        else:
            self.uses.unwrapped.append(node)
            if called or self.is_called(attribute):
                self.doubt(f"{name!r} of the model is called, which may run the network around the wrapper")

    def is_given_back(self, call: cst.CSTNode | None) -> bool:
        """Whether the value of ``call`` is dropped, or assigned to the model's own name."""
        holder = self.index.parent(call) if call is not None else None
        if isinstance(holder, cst.Assign) and len(holder.targets) == 1:
            return dotted_name(holder.targets[0].target).rpartition(".")[2] == self.name
        return isinstance(holder, cst.Expr)

    def is_called(self, node: cst.CSTNode) -> bool:
        holder = self.index.parent(node)
        while isinstance(holder, (cst.Attribute, cst.Subscript)):
            node, holder = holder, self.index.parent(holder)
        return isinstance(holder, cst.Call) and holder.func is node

    def argument(self, node: cst.BaseExpression, argument: cst.Arg, when: When) -> None:
        call = self.index.parent(argument)
        if not isinstance(call, cst.Call):
            self.doubt("the model is handed on in a way that cannot be followed")
            return
        name = dotted_name(call.func)
        if name in HARMLESS or (when == "before" and symbol_of(call.func, self.module) in REBUILDS):
            if when == "after":
                self.uses.unwrapped.append(node)
            return
        function = local_function(call.func, self.module)
        if function is not None and when == "after":
            self.into(function, call, argument)
        elif name == "torch.save" and when == "after":
            self.uses.unwrapped.append(node)
        else:
            self.doubt(f"the model is handed to {name or 'a call'}(), which may keep it")

    def into(self, function: cst.FunctionDef, call: cst.Call, argument: cst.Arg) -> None:
        """Follow the model into a function, all of whose calls must hand it the same model."""
        parameter = parameter_of(function, call, argument)
        if parameter is None:
            self.doubt(f"the model is handed to {function.name.value}() in a way that cannot be followed")
        elif (id(function), parameter) not in self.seen:
            self.seen.add((id(function), parameter))
            if not self.always_gets_model(function, parameter):
                self.doubt(f"{function.name.value}() may be called with another model")
            inner = Tracker(
                self.module, parameter, self.index.scopes[id(function)], self.wrap, self.dropped, self.uses, self.seen
            )
            if any(b.kind != "parameter" for b in self.index.scopes[id(function)].bindings[parameter]):
                self.doubt(f"{parameter!r} is assigned in {function.name.value}()")
            inner.follow()

    def always_gets_model(self, function: cst.FunctionDef, parameter: str) -> bool:
        for reference in self.index.references[function.name.value]:
            call = self.index.parent(reference.node)
            if not isinstance(call, cst.Call) or call.func is not reference.node:
                return False
            given = [a for a in call.args if parameter_of(function, call, a) == parameter]
            if len(given) != 1 or dotted_name(given[0].value).rpartition(".")[2] not in (self.name, parameter):
                return False
        return True


def doubts_about_class(value: cst.BaseExpression | None, module: Module) -> Iterator[str]:
    """What in the way the model is made speaks against DDP: another wrapper, or a class that is not in sight."""
    if not isinstance(value, cst.Call):
        return
    name = dotted_name(value.func)
    if name.rpartition(".")[2] in WRAPPERS:
        yield f"the model is wrapped by {name.rpartition('.')[2]} already"
    symbols = {b.symbol for b in module.index.scope_of(value).lookup(name.partition(".")[0]) if b.symbol is not None}
    if any(is_of_project(symbol, module) for symbol in symbols):
        yield f"what {name}() builds is in another file of the project"


def doubts_about_layers(module: Module) -> Iterator[str]:
    """What the networks that ``module`` defines say: each may be, or be part of, the model."""
    for definition in _classes(module):
        methods = [part for part in definition.body.body if isinstance(part, cst.FunctionDef)]
        others = [method for method in methods if method.name.value != "__init__"]
        if not any(method.name.value == "forward" for method in others):
            if any(_own_attributes(m, True) for m in methods) and _inherits_forward(definition, module):
                yield f"{definition.name.value} adds layers to the forward that it inherits"
            continue
        if any(_branches(method) for method in others):
            yield f"{definition.name.value} decides while it runs which layers take part"
        if any(_cuts_graph(method) for method in others):
            yield f"{definition.name.value} cuts off a part of its layers from the gradient"
        built = {name for m in methods if m.name.value == "__init__" for name in _own_attributes(m, True)}
        used = {name for method in others for name in _own_attributes(method, False)}
        if unused := sorted(built - used):
            yield f"the layer {unused[0]!r} of {definition.name.value} takes no part in its forward"


def _classes(module: Module) -> Iterator[cst.ClassDef]:
    bindings = (
        b for scope in (module.index.scope, *module.index.scopes.values()) for bs in scope.bindings.values() for b in bs
    )
    return (b.node for b in bindings if isinstance(b.node, cst.ClassDef))


def _branches(method: cst.CSTNode) -> bool:
    kinds = (cst.If, cst.IfExp, cst.While, cst.Try, cst.Match)
    if isinstance(method, kinds):
        return True
    if isinstance(method, cst.Subscript) and dotted_name(method.value).startswith("self."):
        return True
    return any(_branches(child) for child in children_of(method))


def _inherits_forward(definition: cst.ClassDef, module: Module) -> bool:
    """Whether a base of ``definition`` is a network of the module with a forward of its own."""
    bases = {dotted_name(base.value) for base in definition.bases}
    parts = (part for other in _classes(module) if other.name.value in bases for part in other.body.body)
    return any(isinstance(part, cst.FunctionDef) and part.name.value == "forward" for part in parts)


def _cuts_graph(node: cst.CSTNode) -> bool:
    """Whether ``node`` runs layers without gradients: under ``no_grad``, or with ``detach``."""
    if isinstance(node, cst.Attribute) and node.attr.value in ("no_grad", "detach", "inference_mode"):
        return True
    return (isinstance(node, cst.Name) and node.value == "no_grad") or any(map(_cuts_graph, children_of(node)))


def _is_literal(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Integer, cst.SimpleString, cst.UnaryOperation))


def _own_attributes(node: cst.CSTNode, assigned: bool) -> Iterator[str]:
    """Attributes of ``self`` that are given the result of a call, or that are read, in ``node``."""
    if assigned and isinstance(node, cst.Assign) and isinstance(node.value, cst.Call):
        for target in node.targets:
            if isinstance(target.target, cst.Attribute) and dotted_name(target.target.value) == "self":
                yield target.target.attr.value
    elif not assigned and isinstance(node, cst.Attribute) and dotted_name(node.value) == "self":
        yield node.attr.value
    for child in children_of(node):
        yield from _own_attributes(child, assigned)


def model_of(site: Site, arguments: dict[str, cst.BaseExpression]) -> cst.BaseExpression | None:
    """The model whose parameters the optimizer updates: ``X`` of ``X.named_parameters()`` or ``X.parameters()``."""
    named = arguments.get("named_parameters")
    if named is not None and (model := _owner(named, "named_parameters")) is not None:
        return model
    optimizer = arguments.get("optimizer")
    if isinstance(optimizer, cst.Name):
        values = [
            b.value for b in site.scope.lookup(optimizer.value) if b.value is not None and b.value is not site.call
        ]
        optimizer = values[0] if len(values) == 1 else None
    if not isinstance(optimizer, cst.Call) or not symbol_of(optimizer.func, site.module).startswith("torch.optim."):
        return None
    sources = [argument.value for argument in optimizer.args if _mentions_parameters(argument.value)]
    return _owner(sources[0], "parameters") if len(sources) == 1 else None


def owner_of_parameters(maker: cst.Call, module: Module) -> str | None:
    """The object whose ``parameters()`` alone a constructor of torch.optim is given; None for anything else."""
    if not maker.args or not symbol_of(maker.func, module).startswith("torch.optim."):
        return None
    owner = _owner(maker.args[0].value, "parameters")
    return dotted_name(owner) if owner is not None else None


def _mentions_parameters(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Attribute) and node.attr.value in ("parameters", "named_parameters"):
        return True
    return any(map(_mentions_parameters, children_of(node)))


def _owner(node: cst.BaseExpression, method: str) -> cst.BaseExpression | None:
    is_call = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == method
    owner = node.func.value if is_call and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None
    return owner if owner is not None and dotted_name(owner) else None
