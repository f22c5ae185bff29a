"""The command line: the only place that prints or picks an exit code."""

from migrator.cli import explain, run
from migrator.cli.migrate import main

__all__ = ["main"]

for verb in (explain.explain, run.run):
    main.verb(verb)
