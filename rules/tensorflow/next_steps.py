"""What a person does after the rewrite of a program that trains with TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable

from migrator.api import Context, NextStep, Site, planner

from .names import INIT, RUNNER

LAUNCH = "hvd-migrate launcher, then python launch_workers.py -np N {path}  (in place of horovodrun or mpirun -np N)"


@planner
def plan_next_steps(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Say how each program that joins workers is started now."""
    if context.uses(RUNNER):
        return (), ()
    starting = context.uses(INIT)
    scripts = [module.path for module in context.modules if "__main__" in module.text] if starting else []
    paths = dict.fromkeys(scripts or [site.module.path for site in starting])
    return [NextStep(LAUNCH.format(path=path)) for path in paths], ()
