"""Who applies the gradients of a wrapped optimizer: Keras in ``fit`` and ``minimize``, or the program itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from migrator.api import Context, Module, Site, cst, dotted_name

from ..followed import Followed

BY_KERAS = ("minimize", "compute_gradients", "_compute_gradients", "get_gradients")


@dataclass(frozen=True)
class Applied:
    """Whether Keras applies the gradients, whether the program does so itself, and where it does or may do so.

    ``directly`` and ``perhaps`` are such places in the file of the wrapper, ``computed`` those that ask it for
    gradients or to minimize, and ``compiled`` the calls of ``compile`` that are given it.
    """

    by_keras: bool
    by_program: bool
    directly: tuple[cst.Attribute, ...]
    perhaps: tuple[cst.Attribute, ...]
    computed: tuple[cst.Attribute, ...]
    compiled: tuple[cst.Call, ...]


def applied_by(site: Site, context: Context) -> Applied:
    """Follow the wrapper that ``site`` makes to where its gradients are applied."""
    followed = Followed(site.module).follow(site.target)
    asked = list(followed.attributes(("apply_gradients", *BY_KERAS)))
    computed = [pair for pair in asked if pair[1].attr.value in BY_KERAS]
    own = [pair for pair in asked if pair[1].attr.value == "apply_gradients"]
    is_computed = any(node.attr.value != "minimize" for _, node in computed)
    models = list(_compiled(followed))
    is_compiled = bool(models)
    calls = [(module, node) for module in context.modules for node in module.index.attributes["apply_gradients"]]
    of_model = [pair for pair in calls if is_compiled and _is_of_model(pair[1])]
    direct = ([] if is_computed else own) + of_model
    replaces_step = any(_is_in_train_step(node, module) for module, node in of_model)
    perhaps = calls if not direct and not is_compiled and not computed else []
    return Applied(
        bool(computed) or (is_compiled and not replaces_step),
        bool(direct),
        _here(direct, site),
        _here(perhaps, site),
        _here(computed, site),
        tuple(call for call in models if id(call) in site.module.index.order),
    )


def _here(found: Sequence[tuple[Module, cst.Attribute]], site: Site) -> tuple[cst.Attribute, ...]:
    return tuple(node for module, node in found if module is site.module)


def _compiled(followed: Followed) -> Iterator[cst.Call]:
    """The calls of ``compile`` that are given the optimizer."""
    for (_, depth), node in followed.seen.items():
        index = followed.module.holding(node).index
        argument = index.parent(node)
        call = index.parent(argument) if isinstance(argument, cst.Arg) and not depth else None
        if isinstance(call, cst.Call) and dotted_name(call.func).rpartition(".")[2] == "compile":
            yield call


def _is_of_model(node: cst.Attribute) -> bool:
    """Whether the optimizer is that of a model, ``self.optimizer`` in a class that trains itself."""
    return isinstance(node.value, cst.Attribute) and node.value.attr.value == "optimizer"


def _is_in_train_step(node: cst.Attribute, module: Module) -> bool:
    """Whether this is the training step that ``fit`` calls in place of its own."""
    holders = module.index.ancestors(node)
    return any(isinstance(h, cst.FunctionDef) and h.name.value == "train_step" for h in holders)
