"""What Keras 3 does otherwise than Keras 2 with an optimizer that averages gradients; measured with Keras 3.15."""

from __future__ import annotations

from collections.abc import Iterator

from migrator.api import Context, Finding, Module, Site, cst, dotted_name

from ..values import is_constant, is_of_project, possible_values, symbol_of
from .applied import Applied
from .options import is_one

MINIMIZE = "optimizers of Keras 3 do not compute gradients: have a tape that averages compute them, and apply them"
ITSELF = (
    "the model's class is in another file: if it has a train_step that calls apply_gradients, Horovod never averaged "
    "those gradients, and in Keras 3 this does"
)
STEPS = "Keras 3 cannot average in its loop over several steps: leave steps_per_execution out"
XLA = "Keras 3 compiles with XLA where it finds a GPU, in which collectives may fail: jit_compile=False prevents that"
COMPILED = (
    "collectives fail in functions that XLA compiles for CPUs, and are not proven for GPUs: leave jit_compile out"
)
SCALED_OUTSIDE = (
    "the loss scale is around the wrapper, so that in Keras 3 one worker may skip a step that the others average: "
    "write hvd.DistributedOptimizer(LossScaleOptimizer(optimizer))"
)


def limits(applied: Applied, site: Site) -> Iterator[Finding]:
    """What it cannot do that Keras 2 could."""
    yield from (site.found("review", MINIMIZE, node=node) for node in applied.computed)
    for call in applied.compiled:
        given = {a.keyword.value: a.value for a in call.args if a.keyword is not None}
        if not is_one(given.get("steps_per_execution")):
            yield site.found("review", STEPS, node=call)
        if _is_of_another_file(call, site.module):
            yield site.found("review", ITSELF, node=call)
        if "jit_compile" not in given:
            yield site.found("note", XLA, node=call)
        elif not is_constant(given["jit_compile"], "False"):
            yield site.found("review", COMPILED, node=call)


def _is_of_another_file(compile_: cst.Call, module: Module) -> bool:
    """Whether the model that is compiled is made by a class or function of a file of the project."""
    model = compile_.func.value if isinstance(compile_.func, cst.Attribute) else compile_
    values = (value for value in possible_values(model, module) if isinstance(value, cst.Call))
    return any(is_of_project(symbol_of(value.func, module), module) for value in values)


def is_scaled_by_compile(site: Site, context: Context) -> bool:
    """Whether ``compile`` puts a loss scale around the optimizer, whose check would see the gradients of one worker."""
    asked = any("mixed_float16" in module.text for module in context.modules)
    return asked and "LossScaleOptimizer" not in site.module.source(site.target)


def is_scaled_outside(site: Site) -> bool:
    """Whether the program puts the loss scale around the wrapper."""
    argument = site.module.index.parent(site.target)
    call = site.module.index.parent(argument) if isinstance(argument, cst.Arg) else None
    return isinstance(call, cst.Call) and dotted_name(call.func).rpartition(".")[2] == "LossScaleOptimizer"
