"""Which reader a kind of file has; each is loaded when a file needs it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from migrator.textfiles.document import Command, Parts
from migrator.textfiles.kinds import Kind

_READERS: dict[Kind, str] = {
    "dockerfile": "dockerfile.read_dockerfile",
    "makefile": "makefile.read_makefile",
    "markdown": "markdown.read_markdown",
    "pipfile": "toml.read_pipfile",
    "pyproject": "toml.read_pyproject",
    "requirements": "requirements.read_requirements",
    "setup.cfg": "setup_cfg.read_setup_cfg",
    "setup.py": "setup_script.read_setup_script",
    "shell": "shell.read_shell",
    "yaml": "yaml.read_yaml",
}


def reader(kind: Kind) -> Callable[[str], Parts]:
    """The reader of a kind of file; of prose, one that finds nothing."""
    if kind not in _READERS:
        return lambda text: Parts()
    module, _, name = _READERS[kind].partition(".")
    found: Callable[[str], Parts] = getattr(import_module(f"migrator.textfiles.{module}"), name)
    return found


def commands_in(text: str) -> tuple[Command, ...]:
    """The commands of a text that is given to a shell."""
    return reader("shell")(text).commands
