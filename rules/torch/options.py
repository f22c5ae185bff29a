"""What a call of DistributedOptimizer asks for, in terms of the reduction that replaces it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from migrator.api import Helper, Module, RefusalError, Site, cst

from ..values import is_constant, possible_values, symbol_of
from .arguments import arguments_of

PARAMETERS = (
    "optimizer",
    "named_parameters",
    "compression",
    "backward_passes_per_step",
    "op",
    "gradient_predivide_factor",
    "num_groups",
    "groups",
    "sparse_as_dense",
    "process_set",
)
NO_ADASUM = "Adasum has no counterpart in torch.distributed"
OPERATIONS = ("Average", "Sum", "Adasum", "Min", "Max", "Product")


@dataclass(frozen=True)
class Options:
    """The arguments of one DistributedOptimizer; ``adasum`` is the condition under which Adasum was asked for."""

    arguments: Mapping[str, cst.BaseExpression]
    sums: bool
    adasum: str
    adasum_test: cst.BaseExpression | None
    compression: cst.BaseExpression | None
    always_compresses: bool
    group: cst.BaseExpression | None
    accumulates: bool
    predivides: bool
    dense: bool

    @property
    def optimizer(self) -> cst.BaseExpression:
        """The optimizer that is wrapped."""
        return self.arguments["optimizer"]

    @property
    def keywords(self) -> dict[str, cst.BaseExpression]:
        """What the function that reduces the gradients is given beside the optimizer."""
        found = {"compression": self.compression, "group": self.group}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def is_plain(self) -> bool:
        """Whether dense gradients are averaged as they are, over all ranks."""
        return not (self.keywords or self.sums or self.dense)

    @property
    def keyword_text(self) -> str:
        """The keywords as a template: ``, compression={compression}``."""
        return "".join(f", {name}={{{name}}}" for name in self.keywords)

    def helper(self, sparse: bool) -> Helper:
        """The function that reduces the gradients."""
        chosen = {
            "sum": self.sums,
            "compression": self.compression is not None,
            "group": self.group is not None,
            "sparse": sparse and not self.dense,
            "dense": self.dense,
        }
        return Helper("reduce_gradients", frozenset(name for name, wanted in chosen.items() if wanted))

    @property
    def function(self) -> str:
        """The name of that function."""
        return "sum_gradients" if self.sums else "average_gradients"


def operations_of(node: cst.BaseExpression, module: Module) -> set[str]:
    """The names of the reduce operations that ``node`` may be; ``?`` where that is decided out of sight."""
    found: set[str] = set()
    for value in possible_values(node, module):
        name = symbol_of(value, module).rpartition(".")[2] if value is not None else ""
        found.add(name if name in OPERATIONS else "?")
    return found


def options_of(site: Site) -> Options:
    """Read the call's arguments; raises RefusalError for what no reduction here can do."""
    arguments = arguments_of(site, PARAMETERS)
    if "optimizer" not in arguments:
        raise RefusalError("the call does not say which optimizer it wraps")
    sums, adasum, test = _operation(arguments.get("op"), site.module)
    compression, always = _compression(arguments.get("compression"), site.module)
    passes = arguments.get("backward_passes_per_step")
    factor = arguments.get("gradient_predivide_factor")
    return Options(
        arguments,
        sums,
        adasum,
        test,
        compression,
        always,
        _group(arguments.get("process_set"), site.module),
        passes is not None and not is_constant(passes, "1"),
        factor is not None and not _is_power_of_two(factor),
        _dense(arguments.get("sparse_as_dense")),
    )


def _operation(node: cst.BaseExpression | None, module: Module) -> tuple[bool, str, cst.BaseExpression | None]:
    found = operations_of(node, module) if node is not None else {"Average"}
    if "?" in found:
        raise RefusalError("which reduction 'op' asks for is decided out of sight")
    if found == {"Adasum"}:
        raise RefusalError(NO_ADASUM)
    if unknown := found - {"Average", "Sum", "Adasum"}:
        raise RefusalError(f"gradients are reduced by {unknown.pop()}, which no strategy here does")
    if {"Average", "Sum"} <= found:
        raise RefusalError("'op' is a sum or an average, as a flag decides")
    sums = "Sum" in found
    if "Adasum" not in found:
        return sums, "", None
    if isinstance(node, cst.IfExp):
        first = operations_of(node.body, module) == {"Adasum"}
        return sums, "if {test}:" if first else "if not {test}:", node.test
    return sums, "", None


def _compression(node: cst.BaseExpression | None, module: Module) -> tuple[cst.BaseExpression | None, bool]:
    if node is None:
        return None, False
    symbols = {symbol_of(value, module).rpartition(".")[2] if value else "" for value in possible_values(node, module)}
    return (None, False) if symbols == {"none"} else (node, symbols == {"fp16"})


def _group(node: cst.BaseExpression | None, module: Module) -> cst.BaseExpression | None:
    """The process set within which gradients are reduced; None where that is all ranks."""
    if node is None or symbol_of(node, module).endswith(".global_process_set"):
        return None
    return node


def _dense(node: cst.BaseExpression | None) -> bool:
    if node is None or is_constant(node, "False"):
        return False
    if is_constant(node, "True"):
        return True
    raise RefusalError("whether sparse gradients are made dense is decided at run time")


def _is_power_of_two(node: cst.BaseExpression) -> bool:
    if not isinstance(node, (cst.Integer, cst.Float)):
        return False
    value = float(node.value)
    return value > 0 and value.hex().partition("p")[0] in ("0x1.0000000000000", "0x1")
