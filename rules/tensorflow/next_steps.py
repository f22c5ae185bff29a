"""What a person is told of the rewrite of a program that trains with TensorFlow, and does after it."""

from __future__ import annotations

from collections.abc import Iterable

from migrator.api import Context, NextStep, Note, Site, StartedBy, planner

from ..launch.scripts import started
from ..spark.names import starts_ranks
from .names import INIT, is_tensorflow

LAUNCH = "hvd-migrate launcher, then python launch_workers.py -np N {path}  (in place of horovodrun or mpirun -np N)"

NOTEBOOK = "jupyter nbconvert --to script {path}, hvd-migrate launcher, then python launch_workers.py -np N {script}"


@planner
def plan_next_steps(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Say which Keras the program is written for, and how it is started now."""
    notes = [Note(context.keras)] if context.keras and is_tensorflow(context) else []
    starting = () if any(starts_ranks(context)) else context.uses(INIT)
    by = [StartedBy("launch_workers.py")] if starting else []
    return [*notes, *by, *(NextStep(_launch(path)) for path in started(context, starting))], ()


def _launch(path: str) -> str:
    """The line that starts a program, of a notebook the script that Jupyter makes of it."""
    script = path.removesuffix(".ipynb")
    return LAUNCH.format(path=path) if script == path else NOTEBOOK.format(path=path, script=f"{script}.py")
