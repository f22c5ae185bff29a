"""What a call of horovod.tensorflow reduces by, how values travel, and how the functions in its place are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from migrator.api import Helper, RefusalError, Site, Template, cst, expression

from ..values import is_constant, possible_values, symbol_of
from .names import NO_PROCESS_SETS

Arguments = Mapping[str, cst.BaseExpression]

OPERATIONS = {f"horovod.tensorflow.{name}": name for name in ("Average", "Sum", "Min", "Max", "Product", "Adasum")}
ADASUM = "Adasum adds gradients by a method of its own, which nothing else has: choose hvd.Average and tune again"
COMPRESSIONS = ("horovod.tensorflow.Compression.none", "horovod.tensorflow.Compression.fp16")
FEATURES = {"compression": "compression", "sparse_as_dense": "dense"}


@dataclass(frozen=True)
class Options:
    """The operation of a reduction, by Horovod's name, and what else its function is told, by keyword."""

    operation: str
    told: Arguments = field(default_factory=dict)

    @property
    def features(self) -> frozenset[str]:
        """What the function must be able to do."""
        asked = {FEATURES[name] for name in self.told if name in FEATURES}
        return frozenset(asked | ({"options"} if asked else set()) | ({"sum"} if self.operation == "Sum" else set()))

    def helper(self, name: str, more: frozenset[str] = frozenset()) -> Helper:
        """The function ``name`` that can do so."""
        return Helper(f"tensorflow.{name}", self.features | more)

    def call(self, function: str, value: cst.CSTNode) -> Template:
        """A call of ``function`` with ``value``."""
        keywords = "".join(f", {name}={{{name}}}" for name in self.told)
        return expression(f"{function}({{value}}{keywords})", value=value, **self.told)


def options_of(arguments: Arguments, site: Site) -> Options:
    """What ``arguments`` ask for.

    Raises RefusalError where that has no counterpart, or is decided where it cannot be seen.
    """
    if "process_set" in arguments:
        raise RefusalError(NO_PROCESS_SETS)
    told = {name: arguments[name] for name in ("sparse_as_dense",) if not _is_default(arguments.get(name))}
    if _compresses(arguments.get("compression"), site):
        told = {"compression": arguments["compression"], **told}
    return Options(operation_of(arguments, site), told)


def operation_of(arguments: Arguments, site: Site) -> str:
    """The reduction that ``op`` or ``average`` ask for, by its name in Horovod.

    Raises RefusalError where it is decided when the program runs, or is Adasum.
    """
    op, average = arguments.get("op"), arguments.get("average")
    if op is not None and not is_constant(op, "None"):
        operation = OPERATIONS.get(symbol_of(op, site.module))
        if operation is None:
            raise RefusalError("the operation is chosen elsewhere: write hvd.Average or hvd.Sum at this place")
        if operation == "Adasum":
            raise RefusalError(ADASUM)
        return operation
    if average is None or is_constant(average, "None") or is_constant(average, "True"):
        return "Average"
    if is_constant(average, "False"):
        return "Sum"
    raise RefusalError("whether it averages or adds up is decided when it runs")


def is_one(node: cst.BaseExpression | None) -> bool:
    """Whether an argument is absent, 1 or 1.0."""
    return node is None or (isinstance(node, (cst.Integer, cst.Float)) and float(node.value) == 1)


def _is_default(node: cst.BaseExpression | None) -> bool:
    return node is None or is_constant(node, "False")


def _compresses(node: cst.BaseExpression | None, site: Site) -> bool:
    """Whether values may travel in another form. Raises RefusalError where that is out of sight."""
    if node is None:
        return False
    symbols = list(_compressions(node, site))
    if not set(symbols) <= set(COMPRESSIONS):
        raise RefusalError("how values travel is decided elsewhere: hand on hvd.Compression.fp16 or none")
    return COMPRESSIONS[1] in symbols or not isinstance(node, cst.Attribute)


def _compressions(node: cst.BaseExpression, site: Site) -> Iterator[str]:
    for value in possible_values(node, site.module):
        if value is None:
            yield ""
        else:
            yield COMPRESSIONS[0] if is_constant(value, "None") else symbol_of(value, site.module)
