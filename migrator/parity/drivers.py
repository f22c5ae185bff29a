"""Programs that start their ranks themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

STARTERS = {
    "horovod.spark.run",
    "sparkdl.HorovodRunner",
    "pyspark.ml.torch.distributor.TorchDistributor",
    "spark_tensorflow_distributor.MirroredStrategyRunner",
}
# These count only where they are called whatever happens: programs that horovodrun starts offer them as an option.
OPTIONS = {"horovod.run", "horovod.runner.run", "run_on_ranks", "run_on_workers"}
WRITTEN = ("run_on_ranks", "run_on_workers")  # functions that hvd-migrate writes into programs


def starts_ranks(source: str | bytes) -> bool:
    """Whether a program hands a function to HorovodRunner, TorchDistributor or the like; no, if it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    written = {node.name: node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in WRITTEN}
    names = _imported(tree) | written
    calls = ((_symbol(call.func, names), is_certain) for call, is_certain in _calls(tree))
    return any(name in STARTERS or (is_certain and name in OPTIONS) for name, is_certain in calls)


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, bool]]:
    """The calls of a program, and whether each depends on no condition but that the program is the main one."""
    left: list[tuple[ast.AST, bool]] = [(tree, True)]
    while left:
        node, is_certain = left.pop()
        if isinstance(node, ast.Call):
            yield node, is_certain
        is_condition = isinstance(node, ast.If | ast.IfExp) and "__name__" not in ast.dump(node.test)
        left += [(child, is_certain and not is_condition) for child in ast.iter_child_nodes(node)]


def _imported(tree: ast.Module) -> dict[str, str]:
    """What names stand for that imports bind, anywhere in the program."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                first = each.name.partition(".")[0]
                names[each.asname or first] = each.name if each.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return names


def _symbol(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_symbol(node.value, names)}.{node.attr}"
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""
