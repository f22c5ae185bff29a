"""Which code only some ranks get to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrator.api import Binding, Module, Scope, children_of, cst, dotted_name

MAX_DEPTH = 3
RANK_WORDS = ("rank", "main_process", "is_main", "master", "is_lead", "is_root", "chief", "primary")


def is_rank_guard(test: cst.CSTNode, module: Module, scope: Scope, depth: int = 0) -> bool:
    """Whether ``test`` asks which rank this is: by a name that says so, or by one that stands for such a test."""
    for name in _names(test):
        if any(word in name.lower() for word in RANK_WORDS):
            return True
        if depth < MAX_DEPTH and any(_asks_rank(b, module, depth + 1) for b in scope.lookup(name)):
            return True
    attributes = [node for node in _attributes(test) if depth < MAX_DEPTH]
    stores = (module.index.parent(n) for a in attributes for n in module.index.attributes[a])
    assigns = (module.index.parent(store) for store in stores if isinstance(store, cst.AssignTarget))
    return any(
        isinstance(assign, cst.Assign) and is_rank_guard(assign.value, module, module.index.scope_of(assign), depth + 1)
        for assign in assigns
    )


def _asks_rank(binding: Binding, module: Module, depth: int) -> bool:
    if binding.value is not None:
        return is_rank_guard(binding.value, module, binding.scope, depth)
    if isinstance(binding.node, cst.FunctionDef):
        body = binding.node.body
        short = len(body.body) <= 3
        return short and is_rank_guard(body, module, module.index.scopes[id(binding.node)], depth)
    return False


def _names(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.Name):
        yield node.value
    elif isinstance(node, cst.SimpleString):
        yield node.raw_value
    for child in children_of(node):
        yield from _names(child)


def _attributes(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.Attribute):
        yield node.attr.value
    for child in children_of(node):
        yield from _attributes(child)


def runs_on_some_ranks(node: cst.CSTNode, module: Module, depth: int = 0) -> bool:
    """Whether a test of the rank decides if ``node`` runs, in its own function or where that is called."""
    inner: cst.CSTNode = node
    for holder in module.index.ancestors(node):
        scope = module.index.scope_of(holder)
        if any(is_rank_guard(test, module, scope) for test in _tests(holder, inner)):
            return True
        if any(_leaves(statement, module) for statement in _before(holder, inner)):
            return True
        if isinstance(holder, cst.FunctionDef) and depth < MAX_DEPTH:
            return any(runs_on_some_ranks(call, module, depth + 1) for call in calls_of(holder, module))
        inner = holder
    return False


def _tests(holder: cst.CSTNode, inner: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The tests in ``holder`` that decide whether its part ``inner`` runs."""
    if isinstance(holder, (cst.If, cst.IfExp, cst.While)) and holder.test is not inner:
        yield holder.test
    elif isinstance(holder, cst.Match):
        yield holder.subject
    elif isinstance(holder, cst.FunctionDef):
        yield from (decorator.decorator for decorator in holder.decorators)
    elif isinstance(holder, cst.BooleanOperation) and holder.right is inner:
        yield holder.left
    elif isinstance(holder, cst.BaseComp):
        yield from (condition.test for condition in holder.for_in.ifs)


def _before(holder: cst.CSTNode, inner: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """The statements of the block ``holder`` that come before ``inner``."""
    if not isinstance(holder, (cst.IndentedBlock, cst.Module)):
        return ()
    return holder.body[: next((n for n, other in enumerate(holder.body) if other is inner), 0)]


def _leaves(statement: cst.CSTNode, module: Module) -> bool:
    """Whether some ranks leave the block at ``statement``."""
    if not isinstance(statement, cst.If):
        return False
    lines = statement.body.body if isinstance(statement.body, cst.IndentedBlock) else (statement.body,)
    simple = (cst.SimpleStatementLine, cst.SimpleStatementSuite)
    parts = [part for line in lines if isinstance(line, simple) for part in line.body]
    leaves = any(isinstance(part, (cst.Return, cst.Continue, cst.Break, cst.Raise)) or _exits(part) for part in parts)
    return leaves and is_rank_guard(statement.test, module, module.index.scope_of(statement))


def _exits(statement: cst.BaseSmallStatement) -> bool:
    call = statement.value if isinstance(statement, cst.Expr) else None
    return isinstance(call, cst.Call) and dotted_name(call.func).rpartition(".")[2] in ("exit", "_exit", "quit")


def calls_of(function: cst.FunctionDef, module: Module) -> Iterator[cst.Call]:
    """The calls of ``function``, by its name or as a method, that the module shows."""
    name = function.name.value
    named = [reference.node for reference in module.index.references[name]] + list(module.index.attributes[name])
    for node in named:
        call = module.index.parent(node)
        if isinstance(call, cst.Call) and call.func is node:
            yield call


def is_main_guard(node: cst.If) -> bool:
    """Whether ``node`` is ``if __name__ == "__main__"``."""
    return isinstance(node.test, cst.Comparison) and dotted_name(node.test.left) == "__name__"
