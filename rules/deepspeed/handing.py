"""How the engine gets from where it is made to the functions that train with it, in the place of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from migrator.api import Module, Site, cst

from .engine import Obstacle, Use
from .model import Model, Parameter, function_of
from .names import CLIP, NAME, ZERO_GRAD

MODES = ("train", "eval")


def handed_uses(
    model: Model,
    engine: str,
    training: Iterable[Parameter],
    uses: Sequence[Use],
    obstacles: list[Obstacle],
    wrap: Site,
) -> Iterator[Use]:
    """The parameters that are the engine now, what they are given, and the uses of the model through them."""
    parameters = _with_callers(model, training)
    keys = {parameter.key for parameter in parameters}
    own = engine.rpartition(".")[2]
    known = {id(use.node) for use in uses}
    gone = {id(use.node) for use in uses if use.symbol in (CLIP, ZERO_GRAD)}
    for parameter in parameters:
        module = parameter.definition.module
        declared = parameter.definition.parameter(parameter.name)
        assert declared is not None
        yield Use(NAME, module, declared.name, own)
        yield from (Use(NAME, given.module, given.keyword, own) for given in parameter.given if given.keyword)
        for given in parameter.given:
            if model.is_variable(given.value, given.module):
                _check(given.module, given.value, wrap, obstacles)
                yield Use(NAME, given.module, given.value, engine)
        for node in parameter.references():
            holders = module.index.ancestors(node)
            if id(node) not in known and not any(id(holder) in gone for holder in holders):
                through = own if _takes_engine(node, module, keys) else f"{own}.module"
                yield Use(NAME, module, node, through)


def _with_callers(model: Model, training: Iterable[Parameter]) -> list[Parameter]:
    """``training``, and the parameters by which their callers got the model."""
    found: dict[tuple[int, str], Parameter] = {}
    waiting = list(training)
    while waiting:
        parameter = waiting.pop()
        if parameter.key not in found:
            found[parameter.key] = parameter
            more = (model.parameter(given.value, given.module) for given in parameter.given)
            waiting += [caller for caller in more if caller is not None]
    return list(found.values())


def _takes_engine(node: cst.Name, module: Module, keys: set[tuple[int, str]]) -> bool:
    """Whether ``node`` is put into training or evaluation, or handed to a function that trains with it too."""
    holder = module.index.parent(node)
    if isinstance(holder, cst.Attribute):
        return holder.attr.value in MODES
    call = module.index.parent(holder) if isinstance(holder, cst.Arg) else None
    if not isinstance(holder, cst.Arg) or not isinstance(call, cst.Call):
        return False
    reached = module.functions.reached(call, module)
    return bool(reached) and all((id(d.function), d.receives(call, holder) or "") in keys for d in reached)


def _check(module: Module, node: cst.BaseExpression, wrap: Site, obstacles: list[Obstacle]) -> None:
    same = module is wrap.module and function_of(node, module) is function_of(wrap.target, wrap.module)
    if same and module.index.before(node, wrap.target):
        obstacles.append(Obstacle(module, node, "the model trains before the place where its engine can be made"))
