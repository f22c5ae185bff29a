"""The engine of a program, and what was found of one site."""

from __future__ import annotations

from migrator.api import Context, Site

from ..torch.plan import Plan
from .engine import Engine, Use


def engine_of(site: Site, context: Context) -> tuple[Engine, Use]:
    """The engine that takes over at ``site``, and what becomes of it there."""
    engines = (plan.engine for plan in context.plan(Plan) if plan.engine is not None)
    uses = ((engine, use) for engine in engines for use in engine.uses)
    return next((engine, use) for engine, use in uses if use.node is site.target or use.node is site.node)


def use_of(site: Site, context: Context) -> Use:
    """What becomes of ``site``."""
    return engine_of(site, context)[1]
