"""The scripts that a launcher starts."""

from collections.abc import Collection, Sequence

from migrator.api import Context, Site


def started(context: Context, starting: Sequence[Site]) -> Collection[str]:
    """The paths of the files that run as a script, or else of those in which ``starting`` stands; none without it."""
    scripts = [module.path for module in context.modules if "__main__" in module.text] if starting else []
    return dict.fromkeys(scripts or [site.module.path for site in starting])
