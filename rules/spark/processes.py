"""How many processes a runner is asked for, and where they run."""

from __future__ import annotations

from dataclasses import dataclass

from migrator.api import Module, cst, dotted_name

from ..values import possible_values

COUNTS = ("len", "abs", "device_count", "getNumPartitions", "count")
AMOUNTS = ("defaultParallelism", "defaultMinPartitions")


@dataclass(frozen=True)
class Processes:
    """What is known of ``np``: the ``number`` where it is one, and the signs that it may have."""

    node: cst.BaseExpression
    number: int | None
    signs: frozenset[str]

    @property
    def is_on_driver(self) -> bool:
        """Whether all processes are certain to run on the driver."""
        return self.signs <= {"one", "negative"}

    @property
    def is_a_job(self) -> bool:
        """Whether they are certain to be tasks of a Spark job."""
        return self.signs == {"positive"}

    @property
    def may_share_the_driver(self) -> bool:
        """Whether there may be several on the driver."""
        return bool(self.signs & {"negative", "unknown"})


def processes_of(node: cst.BaseExpression, module: Module) -> Processes:
    """What the code says of ``node``, the number of processes: negative ones run on the driver, ``one`` is -1."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus) and literal(node) is None:
        inner = processes_of(node.expression, module)
        return Processes(node, None, frozenset({"negative" if inner.is_a_job else "unknown"}))
    values = list(possible_values(node, module, of_horovod=False))
    return Processes(node, literal(node), frozenset(_sign(value) if value else "unknown" for value in values))


def literal(node: cst.BaseExpression) -> int | None:
    """The integer that is written, if one is."""
    if isinstance(node, cst.Integer):
        return int(node.value, 0)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = literal(node.expression)
        return None if inner is None else -inner
    return None


def _sign(node: cst.BaseExpression) -> str:
    number = literal(node)
    if number is not None:
        return "one" if number == -1 else "negative" if number < 0 else "positive" if number else "zero"
    return "positive" if _is_amount(node) else "unknown"


def _is_amount(node: cst.BaseExpression) -> bool:
    """Whether ``node`` cannot be negative: a count, or what is computed from such."""
    if isinstance(node, cst.Integer):
        return True
    if isinstance(node, cst.BinaryOperation):
        is_kept = isinstance(node.operator, (cst.Add, cst.Multiply, cst.FloorDivide))
        return is_kept and _is_amount(node.left) and _is_amount(node.right)
    if isinstance(node, cst.BooleanOperation):
        return _is_amount(node.left) and _is_amount(node.right)
    if isinstance(node, cst.Call):
        name = dotted_name(node.func).rpartition(".")[2] or _last(node.func)
        inner = [argument.value for argument in node.args]
        if name in ("max", "min", "sum", "int", "round"):
            return bool(inner) and (any if name == "max" else all)(map(_is_amount, inner))
        return name in COUNTS
    return _last(node) in AMOUNTS


def _last(node: cst.BaseExpression) -> str:
    return node.attr.value if isinstance(node, cst.Attribute) else ""
