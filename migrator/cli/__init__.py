"""The command line: the only place that prints or picks an exit code."""

from migrator.cli import assess, compare, explain, launcher, parity, record, run
from migrator.cli.migrate import main

__all__ = ["main"]

for verb in (assess.assess, compare.compare, explain.explain, launcher.launcher, parity.parity, record.record, run.run):
    main.verb(verb)
