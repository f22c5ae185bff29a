"""``python -m migrator.cli``."""

from migrator.cli import main

main()
