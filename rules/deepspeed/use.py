"""The engine of a program, and what was found of one site."""

from __future__ import annotations

from migrator.api import Context, Site

from ..torch.plan import Plan
from .engine import Use


def use_of(site: Site, context: Context) -> Use:
    """What becomes of ``site``."""
    engines = (plan.engine for plan in context.plan(Plan) if plan.engine is not None)
    return next(use for engine in engines for use in engine.uses if use.node is site.target or use.node is site.node)
