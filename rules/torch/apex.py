"""Whether apex gives the optimizer other parameters than those that Horovod wrapped."""

from __future__ import annotations

from collections.abc import Iterator

from migrator.api import Context, Module, cst

from ..values import possible_values, symbol_of

_INITIALIZE = "apex.amp.initialize"
_KEEPING = ("O0", "O1", "O3")
_LEVEL = "opt_level"


def copying_levels(context: Context) -> set[str]:
    """The levels at which ``amp.initialize`` may replace an optimizer's parameters by copies: O2, or one not in sight.

    The backward pass leaves its gradients in the model's parameters; those of the copies are filled in afterwards.
    """
    found = {level for module in context.modules for call in _calls(module) for level in _levels(call, module)}
    return found.difference(_KEEPING)


def _calls(module: Module) -> Iterator[cst.Call]:
    """The calls of ``amp.initialize`` that are given an optimizer."""
    index = module.index
    for node in (*index.attributes["initialize"], *(r.node for r in index.references["initialize"])):
        call = index.parent(node)
        if isinstance(call, cst.Call) and call.func is node and symbol_of(node, module) == _INITIALIZE:
            names = [a.keyword.value for a in call.args if a.keyword is not None]
            if "optimizers" in names or len(call.args) - len(names) > 1:
                yield call


def _levels(call: cst.Call, module: Module) -> Iterator[str]:
    given = [a.value for a in call.args if a.keyword is not None and a.keyword.value == _LEVEL]
    if not given and len(call.args) < 4:
        yield "O1"
    for node in given:
        for value in possible_values(node, module):
            yield str(value.evaluated_value) if isinstance(value, cst.SimpleString) else ""
