"""What a file beside the code is, by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Kind = Literal[
    "dockerfile", "lock", "makefile", "markdown", "pipfile", "prose", "pyproject", "requirements", "setup.cfg",
    "setup.py", "shell", "yaml",
]  # fmt: skip

_BY_NAME: dict[str, Kind] = {
    "makefile": "makefile",
    "gnumakefile": "makefile",
    "jenkinsfile": "prose",
    "pipfile": "pipfile",
    "pyproject.toml": "pyproject",
    "setup.cfg": "setup.cfg",
    "tox.ini": "setup.cfg",
    "setup.py": "setup.py",
    "pipfile.lock": "lock",
    "poetry.lock": "lock",
    "uv.lock": "lock",
    "pdm.lock": "lock",
    "pixi.lock": "lock",
    "pylock.toml": "lock",
    "conda-lock.yml": "lock",
}
_BY_EXTENSION: dict[str, Kind] = {
    **dict.fromkeys(("sh", "bash", "zsh", "ksh", "slurm", "sbatch", "pbs", "lsf", "job", "bsub", "qsub"), "shell"),
    **dict.fromkeys(("mk", "mak"), "makefile"),
    **dict.fromkeys(("yml", "yaml"), "yaml"),
    **dict.fromkeys(("md", "markdown"), "markdown"),
    **dict.fromkeys(("rst", "toml", "cfg", "ini", "txt", "in", "groovy"), "prose"),
    "dockerfile": "dockerfile",
}
_OF_REQUIREMENTS = ("requirement", "constraint", "reqs", "requires", "dependencies")


def kind_of(name: str) -> Kind | None:
    """The kind of the file called ``name``; None for one that is not read."""
    low = name.lower()
    extension = low.rpartition(".")[2] if "." in low else ""
    if low in _BY_NAME:
        return _BY_NAME[low]
    if low.startswith(("dockerfile", "containerfile")) and extension not in ("py", "md"):
        return "dockerfile"
    if extension in ("txt", "in") and any(part in low for part in _OF_REQUIREMENTS):
        return "requirements"
    return _BY_EXTENSION.get(extension)


def is_shell_script(data: bytes) -> bool:
    """Whether the first line of a file asks for a shell."""
    return data.startswith(b"#!") and b"sh" in data.partition(b"\n")[0]


def kind_of_path(path: Path) -> Kind | None:
    """The kind of a file, which the folder may tell: ``requirements/base.txt`` holds requirements."""
    kind = kind_of(path.name)
    is_list = path.suffix in (".txt", ".in") and any(part in path.parent.name.lower() for part in _OF_REQUIREMENTS)
    return "requirements" if kind == "prose" and is_list else kind
