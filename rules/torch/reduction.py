"""What a call of a collective asks for: the reduction, its scaling and compression, and the process group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from migrator.api import Finding, Helper, Import, Module, RefusalError, Site, cst, dotted_name, expression

from ..values import is_constant, possible_values, symbol_of
from .constants import OPERATIONS
from .names import DIST, TORCH
from .options import NO_ADASUM, operations_of

NAME_WORDS = ("name", "label", "tag", "desc", "metric")
OUTSIDE = "a rank outside the process group is warned and goes on without the others, where Horovod raises ValueError"
Arguments = Mapping[str, cst.BaseExpression]


@dataclass(frozen=True)
class Operation:
    """Code for a ``dist.ReduceOp``; ``known`` is its name where that is certain, ``note`` what a reviewer must know."""

    code: str
    known: str = ""
    note: str = ""


@dataclass(frozen=True)
class Reduction:
    """A reduction: its operation, and code for the other arguments of ``all_reduce``, by their names."""

    operation: Operation
    options: Mapping[str, str]

    @property
    def is_scaled(self) -> bool:
        """Whether values are multiplied before or after the reduction."""
        return any(name.endswith("scale_factor") for name in self.options)

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing but an operation that is certain, and perhaps a process group."""
        return bool(self.operation.known) and not set(self.options) - {"group"}

    @property
    def ends(self) -> bool:
        """Whether something is left to do once the ranks' values are reduced."""
        return self.operation.known in ("", "AVG") or self.is_scaled

    @property
    def features(self) -> frozenset[str]:
        """What the helpers must be able to do."""
        chosen = {
            "mean": self.operation.known in ("", "AVG"),
            "group": "group" in self.options,
            "scale": self.is_scaled,
            "compression": "compression" in self.options,
            "long": bool(set(self.options) - {"group"}),
            "options": bool(self.options),
            "ends": self.ends,
        }
        return frozenset(name for name, wanted in chosen.items() if wanted)

    @property
    def group(self) -> str:
        """The process group as a last argument; empty where there is none."""
        return ", {group}" if "group" in self.options else ""

    @property
    def arguments(self) -> str:
        """Everything that follows the tensor in a call of ``all_reduce``."""
        named = (f", {name}={code}" for name, code in self.options.items() if name != "group")
        return f", {self.operation.code}{self.group}{''.join(named)}"

    @property
    def keywords(self) -> str:
        """The same where all options are passed on by name."""
        return f", {self.operation.code}" + "".join(f", {name}={code}" for name, code in self.options.items())

    @property
    def positions(self) -> str:
        """The same for ``autograd.Function.apply``, which takes no names."""
        pairs = ", ".join(f'"{name}": {code}' for name, code in self.options.items())
        return f", {self.operation.code}" + (f", {{{pairs}}}" if pairs else "")

    def helper(self, name: str) -> Helper:
        """A helper that does it."""
        return Helper(name, self.features)

    def reduced(self, tensor: str, is_plain: bool) -> tuple[str, Helper]:
        """Code that returns ``tensor`` reduced, without a gradient where the tensor ``is_plain``."""
        operation = self.operation.known if self.is_plain else ""
        if operation == "AVG":
            return (
                (f"all_reduce_mean({tensor}{self.group})", self.helper("all_reduce_mean"))
                if is_plain
                else (f"MeanOverRanks.apply({tensor}{self.group})", self.helper("mean_over_ranks"))
            )
        if is_plain:
            return f"all_reduce({tensor}{self.arguments})", self.helper("all_reduce")
        if operation == "SUM":
            return f"SumOverRanks.apply({tensor}{self.group})", self.helper("sum_over_ranks")
        return f"ReduceOverRanks.apply({tensor}{self.positions})", self.helper("reduce_over_ranks")

    def done_in_place(self, tensor: str) -> tuple[str, list[Helper]]:
        """Code that reduces ``tensor``, which is no part of a graph, in place, for a statement of its own."""
        if self.ends:
            code, helper = self.reduced_in_place(tensor)
            return code, [helper]
        operation = "" if self.operation.known == "SUM" else f", {self.operation.code}"
        group = ", group={group}" if self.group else ""
        return f"dist.all_reduce({tensor}{operation}{group})", []

    def reduced_in_place(self, tensor: str) -> tuple[str, Helper]:
        """Code that reduces ``tensor`` in place and returns it."""
        if self.is_plain and self.operation.known == "AVG":
            return f"all_reduce_mean_({tensor}{self.group})", self.helper("all_reduce_mean_")
        return f"all_reduce_({tensor}{self.keywords})", self.helper("all_reduce_")


def reduction_of(arguments: Arguments, site: Site) -> Reduction:
    """Read the arguments of a call; raises RefusalError for what is not certain."""
    options: dict[str, str] = {}
    if group_of(arguments, site.module) is not None:
        options["group"] = "{group}"
    for name in ("prescale_factor", "postscale_factor"):
        if name in arguments and not any(is_constant(arguments[name], one) for one in ("1", "1.0")):
            options[name] = f"{{{name}}}"
    if code := _compression(arguments.get("compression"), site.module):
        options["compression"] = code
    return Reduction(operation_of(arguments, site), options)


def operation_of(arguments: Arguments, site: Site) -> Operation:
    """What ``op``, or ``average`` in older programs, asks for."""
    given = {name for name in ("average", "op") if name in arguments and not is_constant(arguments[name], "None")}
    if len(given) == 2:
        raise RefusalError("'average' and 'op' are both given, which Horovod refuses")
    if "average" in given:
        return _by_average(arguments["average"])
    return _by_operation(arguments["op"], site.module) if "op" in given else _certain("AVG")


def _certain(name: str, note: str = "") -> Operation:
    return Operation(f"dist.ReduceOp.{name}", name, note)


def _by_average(average: cst.BaseExpression) -> Operation:
    if is_constant(average, "False") or is_constant(average, "0"):
        return _certain("SUM")
    if is_constant(average, "True") or is_constant(average, "1") or _is_text(average):
        return _certain("AVG")
    at_run_time = "'average' decides at run time between mean and sum"
    if isinstance(average, cst.Comparison) or _is_negated(average):
        return Operation("dist.ReduceOp.AVG if {average} else dist.ReduceOp.SUM", "", at_run_time)
    if not dotted_name(average):
        raise RefusalError("whether it is a mean or a sum is computed in the call: give it a name first")
    if isinstance(average, cst.Name) and any(word in average.value.lower() for word in NAME_WORDS):
        return _certain("AVG", f"{average.value!r} stands in the place of 'average', where a name means the mean")
    code = "dist.ReduceOp.AVG if {average} is None or {average} else dist.ReduceOp.SUM"
    return Operation(code, "", at_run_time)


def _is_negated(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)


def _is_text(node: cst.BaseExpression) -> bool:
    """Whether ``node`` is certainly a string, and not an empty one: ``"loss/" + name``, ``f"loss {step}"``."""
    if isinstance(node, cst.SimpleString):
        return bool(node.raw_value)
    if isinstance(node, cst.BinaryOperation):
        return _is_text(node.left) or _is_text(node.right)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format":
        return _is_text(node.func.value)
    return isinstance(node, (cst.ConcatenatedString, cst.FormattedString))


def _by_operation(op: cst.BaseExpression, module: Module) -> Operation:
    found = operations_of(op, module)
    if found == {"Adasum"}:
        raise RefusalError(NO_ADASUM)
    if len(found) == 1 and (name := OPERATIONS.get(next(iter(found)))):
        return _certain(name)
    if any(isinstance(value, cst.BaseNumber) for value in possible_values(op, module)):
        raise RefusalError("'op' may be a number: name the reduction, as hvd.Sum does")
    return Operation(
        "{op}", "", "which reduction it is, 'op' decides at run time: a dist.ReduceOp, or None for the mean"
    )


def group_of(arguments: Arguments, module: Module) -> cst.BaseExpression | None:
    """What says among which ranks; None where it is all of them."""
    node = arguments.get("process_set")
    is_global = is_constant(node, "None") or (node and symbol_of(node, module).endswith(".global_process_set"))
    return None if is_global else node


def _compression(node: cst.BaseExpression | None, module: Module) -> str:
    """Code for the dtype in which a tensor travels, or None; empty where it is its own."""
    if node is None:
        return ""
    symbols = {symbol_of(v, module).rpartition(".")[2] if v is not None else "" for v in possible_values(node, module)}
    if symbols == {"none"}:
        return ""
    return "torch.float16" if symbols == {"fp16"} else "{compression}"


def rewritten(
    site: Site, code: str, helpers: list[Helper], arguments: Arguments, *notes: str, message: str = ""
) -> Finding:
    """The finding that puts ``code``, with the arguments set in by their names, where the call stands."""
    group = group_of(arguments, site.module)
    parts = {**arguments, **({"group": group} if group is not None else {})}
    new = expression(code, **{name: part for name, part in parts.items() if f"{{{name}}}" in code})
    said = [note for note in (*notes, OUTSIDE if "{group}" in code else "") if note]
    imports: list[Import] = [DIST] if "dist." in code else []
    imports += [TORCH] if "torch." in code else []
    message = ": ".join([message or f"{site.short} → {site.preview(new)}", *(["; ".join(said)] if said else [])])
    return site.replace(new, class_="review" if said else "exact", message=message, imports=imports, helpers=helpers)
