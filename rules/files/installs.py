"""Commands that install: what they ask for, and what is left of one without Horovod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from migrator.api import Command, Document, Word, cst, distribution_of, dotted_name

from ..launch.line import launcher_of

SUBCOMMANDS = {
    "pip": ("install", "wheel", "download", "uninstall"),
    **dict.fromkeys(("conda", "mamba", "micromamba"), ("install", "create", "update", "remove", "uninstall")),
    **dict.fromkeys(("poetry", "pdm", "rye", "pixi", "uv"), ("add", "remove")),
    "pipenv": ("install", "uninstall"),
}
WRAPPERS = (
    "sudo",
    "env",
    "time",
    "nice",
    "nohup",
    "exec",
    "command",
    "uv",
    "conda",
    "mamba",
    "run",
    "pipenv",
    "poetry",
)
WITH_VALUE = (
    *(
        "-r",
        "--requirement",
        "-c",
        "--constraint",
        "-i",
        "--index-url",
        "--extra-index-url",
        "-f",
        "--find-links",
        "-t",
    ),
    *("--target", "--root", "--prefix", "--src", "-w", "--wheel-dir", "--global-option", "--install-option", "-C"),
    *("--config-settings", "--build-option", "--timeout", "--retries", "--cache-dir", "--trusted-host", "--proxy"),
    *("--python", "--platform", "--python-version", "--abi", "--implementation", "--log", "--progress-bar", "--cert"),
    *("--upgrade-strategy", "-d", "--dest", "--exists-action", "-n", "--name", "-p", "--channel", "--file", "--solver"),
    *("--no-binary", "--only-binary", "-G", "--group", "--optional", "-E", "--extras", "--source", "-e", "--editable"),
)
OF_CONDA = ("conda", "mamba", "micromamba")
BUILDERS = ("git", "cd", "pushd", "wget", "curl", "cp", "mv")
ACTORS = (
    *BUILDERS,
    *("docker", "podman", "singularity", "test", "make", "cmake"),
    *("sudo", "env", "conda", "mamba", "uv", "poetry", "pipenv", "bash", "sh", "grep", "egrep", "time", "srun"),
)
OF_FILES = ("-r", "--requirement", "--file", "-e", "--editable")
OF_BINARIES = ("--no-binary", "--only-binary")


@dataclass(frozen=True)
class Install:
    """A command that installs: what it asks for, the words that go without Horovod, and whether nothing is left."""

    command: Command
    tool: str
    asked: tuple[Word, ...]
    going: tuple[Word, ...]
    is_empty: bool

    @property
    def is_taken(self) -> bool:
        """Whether the command goes whole: it installs nothing but Horovod, and can be taken out."""
        return self.is_empty and self.command.is_editable and self.command.place is not None


def installs(document: Document, runtimes: Sequence[str]) -> Iterator[Install]:
    """The commands of a document that install something; ``runtimes`` are what goes from them."""
    for command in document.parts.commands:
        if (found := _install(command, runtimes)) is not None:
            yield found


def _install(command: Command, runtimes: Sequence[str]) -> Install | None:
    first = command.words[0]
    if not first.is_literal and "pip" in first.value.lower():
        words = command.words[1 + (command.words[1:2] != () and command.words[1].value in SUBCOMMANDS["pip"]) :]
        return _read(command, "pip", words, runtimes)
    start = _tool(command.words)
    if start is None:
        return None
    tool = _name(command.words[start])
    rest = command.words[start + 1 :]
    verb = next((index for index, word in enumerate(rest) if word.value in SUBCOMMANDS[tool]), None)
    if verb is None or any(not word.value.startswith("-") for word in rest[:verb]):
        return None
    return _read(command, tool, rest[verb + 1 :], runtimes)


def _read(command: Command, tool: str, words: Sequence[Word], runtimes: Sequence[str]) -> Install:
    asked: list[Word] = []
    going: list[Word] = []
    others = False
    position = 0
    while position < len(words):
        word = words[position]
        option, _, value = word.value.partition("=") if word.value.startswith("--") else (word.value, "", "")
        takes = option in WITH_VALUE or (option == "-c" and tool in OF_CONDA)
        given = words[position + 1] if takes and not value and position + 1 < len(words) else None
        position += 1 + (given is not None)
        if takes:
            about = value or (given.value if given is not None else "")
            is_ours = distribution_of(about) in runtimes and option in (*OF_BINARIES, "-e", "--editable")
            going += (each for each in (word, given) if each is not None and is_ours)
            asked += (given or word,) if is_ours and option in ("-e", "--editable") else ()
            others |= option in OF_FILES and not is_ours
        elif not word.value.startswith("-"):
            asked.append(word)
            going += (word,) if distribution_of(word.value) in runtimes else ()
    left = [word for word in asked if not any(word is other for other in going)]
    others |= tool in OF_CONDA and "create" in (word.value for word in command.words)
    return Install(command, tool, tuple(asked), tuple(going), bool(going) and not left and not others)


def _tool(words: Sequence[Word]) -> int | None:
    """The place of the program that installs, behind what only starts it."""
    for index, word in enumerate(words):
        following = words[index + 1].value if index + 1 < len(words) else ""
        if _name(word) in SUBCOMMANDS and not (_name(word) in WRAPPERS and following in ("run", "pip")):
            return index
        is_python = _name(word).startswith("python") or not word.is_literal
        before = words[index - 1].value if index else ""
        is_value = before in ("-n", "--name", "-p", "--prefix", "-u")
        starts = _name(word) in WRAPPERS or is_python or is_value or word.value.startswith("-") or "=" in word.value
        if not starts:
            return None
    return None


def _name(word: Word) -> str:
    """The program that a word names: ``pip`` for ``/usr/bin/pip3.8`` too."""
    name = word.value.rpartition("/")[2]
    return "pip" if name.startswith("pip") and not name[3:].strip("0123456789.") else name


def asks_horovod(command: Command) -> bool:
    """Whether a command does nothing but try Horovod: ``python -c "import horovod.torch"``."""
    values = [word.value for word in command.words]
    if "-c" not in values[:-1] or not values[0].rpartition("/")[2].startswith("python"):
        return False
    code = values[values.index("-c") + 1]
    if "horovod" not in code:
        return False
    try:
        body = cst.parse_module(code).body
    except cst.ParserSyntaxError:
        return False
    small = [each for line in body if isinstance(line, cst.SimpleStatementLine) for each in line.body]
    return len(small) >= len(body) and all(map(_is_about_horovod, small))


def _is_about_horovod(statement: cst.BaseSmallStatement) -> bool:
    if isinstance(statement, cst.Import):
        return all(dotted_name(alias.name).partition(".")[0] == "horovod" for alias in statement.names)
    if isinstance(statement, cst.ImportFrom):
        return statement.module is not None and dotted_name(statement.module).partition(".")[0] == "horovod"
    return isinstance(statement, (cst.Expr, cst.Assert))


def launches(command: Command) -> bool:
    """Whether a command starts ranks, or asks for what does."""
    return any(map(launcher_of, command.words))


def builds(command: Command) -> bool:
    """Whether a command fetches Horovod's sources or goes to them."""
    return command.words[0].value.rpartition("/")[2] in BUILDERS and names_horovod(command)


def names_horovod(command: Command) -> bool:
    """Whether a command has to do with Horovod otherwise: its sources, its image, a test that it is there."""
    if launches(command):
        return False
    name = command.words[0].value.rpartition("/")[2]
    acts = name.startswith(("python", "pip")) or name in ACTORS
    return acts and any(
        "import horovod" in word.value or distribution_of(word.value) == "horovod" for word in command.words[1:]
    )
