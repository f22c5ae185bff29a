"""How often a training step runs the model, goes backward and steps: what DDP relies on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from migrator.api import Module, cst

from ..values import calls_within

Counts = tuple[int, int, int]
ZERO: Counts = (0, 0, 0)
ONE: Counts = (1, 1, 1)
_LOOPS = (cst.For, cst.While)


class UnclearError(Exception):
    """The number of forwards, backwards or steps cannot be told; the message says why."""


@dataclass(frozen=True)
class Step:
    """Which calls count as a forward of the model, as a backward, as a step of the optimizer."""

    is_forward: Callable[[cst.Call], bool]
    is_backward: Callable[[cst.Call], bool]
    is_step: Callable[[cst.Call], bool]

    def counts(self, node: cst.CSTNode, module: Module) -> Counts:
        """How often each occurs in ``node``, an expression or simple statement."""
        total = [0, 0, 0]
        for call in calls_within(node):
            for place, holds in enumerate((self.is_forward, self.is_backward, self.is_step)):
                if holds(call):
                    _check_certain(call, node, module)
                    total[place] += 1
        return total[0], total[1], total[2]


def _check_certain(call: cst.Call, within: cst.CSTNode, module: Module) -> None:
    """Raise UnclearError where ``call`` runs only sometimes, or several times, each time that ``within`` does."""
    for holder in module.index.ancestors(call):
        if holder is within:
            return
        if isinstance(holder, (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.BaseComp)):
            raise UnclearError("part of a training step is under a condition within an expression")


def unclear_step(backward: cst.Call, step: Step, module: Module) -> str:
    """Why the training step around ``backward`` is not one forward, one backward, one step; empty if it is."""
    try:
        paths = {counts for counts, _ in _block(_unit(backward, module), step, module, ())}
    except UnclearError as unclear:
        return str(unclear)
    if paths - {ZERO, ONE}:
        return "a training step is not one forward, one backward and one optimizer step on every path"
    return ""


def _unit(node: cst.CSTNode, module: Module) -> Sequence[cst.CSTNode]:
    """The body that one training step runs through: of the innermost loop, function or module around ``node``."""
    for holder in module.index.ancestors(node):
        if isinstance(holder, (*_LOOPS, cst.FunctionDef)):
            return holder.body.body
        if isinstance(holder, cst.Module):
            return holder.body
    return ()


def _statement(node: cst.CSTNode, step: Step, module: Module) -> Iterator[tuple[Counts, bool]]:
    """The counts on every path through one statement, and whether the path leaves the step there."""
    if isinstance(node, cst.If):
        yield from _branches(node, step, module)
    elif isinstance(node, cst.With):
        head = [step.counts(item, module) for item in node.items]
        yield from _block(node.body.body, step, module, head)
    elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        yield ZERO, False
    elif isinstance(node, cst.BaseCompoundStatement):
        if step.counts(node, module) != ZERO:
            raise UnclearError("part of a training step is in a loop or a try of its own")
        yield ZERO, False
    else:
        parts = node.body if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else (node,)
        ends = any(isinstance(part, (cst.Continue, cst.Break, cst.Return, cst.Raise)) for part in parts)
        yield step.counts(node, module), ends


def _branches(node: cst.If, step: Step, module: Module) -> Iterator[tuple[Counts, bool]]:
    head = [step.counts(node.test, module)]
    yield from _block(node.body.body, step, module, head)
    if isinstance(node.orelse, cst.If):
        yield from _branches(node.orelse, step, module)
    elif isinstance(node.orelse, cst.Else):
        yield from _block(node.orelse.body.body, step, module, head)
    else:
        yield head[0], False


def _block(
    body: Sequence[cst.CSTNode], step: Step, module: Module, head: Sequence[Counts]
) -> Iterator[tuple[Counts, bool]]:
    before = ZERO
    for counts in head:
        before = _add(before, counts)
    open_: set[Counts] = {before}
    for statement in body:
        following: set[Counts] = set()
        for counts, ends in _statement(statement, step, module):
            for earlier in open_:
                if ends:
                    yield _add(earlier, counts), True
                else:
                    following.add(_add(earlier, counts))
        open_ = following
    yield from ((counts, False) for counts in open_)


def _add(first: Counts, second: Counts) -> Counts:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]
