"""What becomes of a program whose model trains by an engine, and what keeps it from that."""

from __future__ import annotations

from dataclasses import dataclass

from migrator.api import Module, RefusalError, Site, Template, cst


@dataclass(frozen=True, eq=False)
class Use:
    """A place that changes: ``node`` is the call or name, ``text`` what the engine, or the model in it, is called."""

    symbol: str
    module: Module
    node: cst.BaseExpression
    text: str


@dataclass(frozen=True, eq=False)
class Engine:
    """How one optimizer's model trains by an engine.

    ``optimizer`` is what the optimizer is called, ``clipping`` and ``batch_size`` are code that can stand where the
    engine is made, after the statement of ``wrap``; ``accumulates`` says that several backwards may come before a step,
    ``keeps_broadcast`` that broadcasts of the weights stay, ``is_global`` that the engine's name must be declared so,
    ``was_reduced`` that gradients were averaged when they were clipped.
    """

    name: str
    wrap: Site
    optimizer: cst.BaseExpression
    uses: tuple[Use, ...]
    clipping: Template | None
    was_reduced: bool
    batch_size: Template | None
    accumulates: bool
    keeps_broadcast: bool
    is_global: bool


@dataclass(frozen=True, eq=False)
class Obstacle:
    """What an engine cannot do, and where."""

    module: Module
    node: cst.CSTNode
    reason: str


class NotCanonicalError(RefusalError):
    """The program does not train as an engine does; the message is the first of ``obstacles``."""

    def __init__(self, obstacles: tuple[Obstacle, ...]) -> None:
        super().__init__(obstacles[0].reason)
        self.obstacles = obstacles
