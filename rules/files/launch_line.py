"""HVD651 launch-line: horovodrun and mpirun become torchrun, or the launcher of TensorFlow workers.

The line is read option by option. torchrun starts the ranks of one host: for several hosts it is started on each of
them, with the same line. What the options of Horovod and MPI tuned has no counterpart; the finding names what is
dropped, and what to use instead. Which launcher suits is told from the program that the line starts; where the program
is blocked, the line stays. A line whose hosts or numbers cannot be told from it is left, and the finding says what to
start. ``mpirun`` in front of a program that does not use Horovod is not touched. Code blocks of documentation are
shown what they should say, and left.

Example:

```sh
horovodrun -np 8 -H one:4,two:4 python train.py --epochs 3
```

Use instead:

```sh
torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=one:29400 train.py --epochs 3
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from migrator.api import (
    Class,
    Command,
    Document,
    RefusalError,
    Script,
    Surroundings,
    TextFinding,
    Word,
    file_rule,
    reworded,
)

from ..launch.line import WORKERS, Started, Translation, environment_before, launcher_of, read_line, shown, translated

TALKING = (
    "echo",
    "printf",
    "git",
    "grep",
    "sed",
    "awk",
    "rm",
    "cp",
    "ln",
    "mv",
    "cat",
    "ls",
    "alias",
    "export",
    "python",
)
ASKING = ("which", "type", "hash", "whereis", "man", "command", "test", "[", "[[")
SCHEDULERS = ("srun", "jsrun", "aprun")
ON_EACH_HOST = (
    "srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES --nproc-per-node=RANKS --rdzv-backend=c10d "
    "--rdzv-endpoint=FIRST_HOST:29400 --rdzv-id=$SLURM_JOB_ID"
)
CHECK_BUILD = 'python -c "import torch.distributed as d; assert d.is_available()"'


@dataclass(frozen=True)
class Place:
    """A launcher's name among the words of a command."""

    document: Document
    command: Command
    position: int

    @property
    def launcher(self) -> str:
        """The launcher."""
        return launcher_of(self.command.words[self.position])

    @property
    def words(self) -> tuple[Word, ...]:
        """The words from the launcher on."""
        return self.command.words[self.position :]

    @property
    def is_mention(self) -> bool:
        """Whether the launcher is named, and not started: in a text, or as an argument of something else."""
        commands = [self.command.within, *([self.command] if self.position else [])]
        talks = any(command is not None and command.words[0].value in (*TALKING, *ASKING) for command in commands)
        return talks or (self.position > 0 and not (self.words[1:] and self.words[1].value.startswith("-")))

    @property
    def asks(self) -> bool:
        """Whether the command asks for the launcher: ``which horovodrun``."""
        return self.command.words[0].value in ASKING

    def found(self, class_: Class, message: str) -> TextFinding:
        """A finding at the launcher's name."""
        return TextFinding(self.words[0].span, class_, message, symbol=self.launcher)

    def rewritten(self, message: str, words: Sequence[Word | str]) -> TextFinding:
        """A finding that puts ``words`` in the place of the launcher and what follows it."""
        new = [*self.command.words[: self.position], *words]
        edits = tuple(reworded(self.document.text, self.command, new))
        return replace(self.found("review", message), edits=edits)


@file_rule("HVD651", "launch-line")
def launch_line(document: Document, surroundings: Surroundings) -> Iterator[TextFinding]:
    mentioned = False
    for command in document.parts.commands:
        for position in [n for n, word in enumerate(command.words) if launcher_of(word)][:1]:
            place = Place(document, command, position)
            if not place.is_mention:
                yield from _line(place, surroundings)
            elif place.launcher == "horovodrun" and (place.asks or not mentioned):
                mentioned = True
                yield _mention(place)
        yield from _scheduled(document, command, surroundings)


def _scheduled(document: Document, command: Command, surroundings: Surroundings) -> Iterator[TextFinding]:
    """A scheduler that starts a process for each rank of a program: torchrun wants one for each host."""
    words = command.words
    starts = [n for n, word in enumerate(words) if word.value.rpartition("/")[2] in SCHEDULERS]
    if not starts or any(launcher_of(word) or word.value == "torchrun" for word in words):
        return
    for word in words[starts[0] + 1 :]:
        script = surroundings.script(document.file, word.value) if word.value.endswith(".py") else None
        if script is not None and script.program is not None:
            launcher = launcher_for(script, surroundings)
            name = words[starts[0]].value
            instead = ON_EACH_HOST if launcher == "torchrun" else f"see what {launcher} needs"
            message = f"{name} starts a process for each rank of {script.file.name}; start {launcher} once on each host"
            yield TextFinding(words[starts[0]].span, "review", f"{message}: {instead}", symbol=name)
            return


def _line(place: Place, surroundings: Surroundings) -> Iterator[TextFinding]:
    try:
        line = read_line(place.words)
        script = _script(place, line.started, surroundings)
        if place.launcher != "horovodrun" and not _is_ours(place.document, script):
            return
        if line.values("check_build") or line.values("version"):
            yield _question(place)
        else:
            yield _moved(place, translated(line, launcher_for(script, surroundings)), script)
    except (RefusalError, ValueError) as refusal:
        class_: Class = "blocked" if place.command.is_editable else "review"
        yield place.found(class_, f"the line is left as it is: {refusal}")


def _script(place: Place, started: Started, surroundings: Surroundings) -> Script | None:
    """The script that a line starts, from the folder that the commands before it change to."""
    if started.script is None:
        return None
    before = [c for c in place.document.parts.commands if c.span.start < place.command.span.start]
    folders = [c.words[1].value for c in before if c.words[0].value == "cd" and len(c.words) > 1]
    known = {variable.name: variable.value for variable in place.document.parts.variables}
    name = known.get(started.script.strip('"${}'), started.script) if "$" in started.script else started.script
    return surroundings.script(place.document.file, name, is_module=started.is_module, folders=folders[-1:])


def _is_ours(document: Document, script: Script | None) -> bool:
    """Whether an MPI launcher starts a program of Horovod: its script does use it, or nothing but the file tells."""
    return script.uses_horovod if script is not None else "horovod" in document.text.lower()


def _mention(place: Place) -> TextFinding:
    if place.asks:
        return place.found("review", "asks for horovodrun, which goes with Horovod: ask for torchrun")
    return place.found("note", "names horovodrun in a text or as an argument, which is left as it is")


def _question(place: Place) -> TextFinding:
    """``horovodrun --check-build`` and ``--version``: PyTorch needs no build of its own."""
    message = "asks what Horovod was built with: {} asks that of PyTorch"
    if not place.command.form.is_shell or not place.command.is_editable:
        return place.found("review", message.format(CHECK_BUILD))
    quote = "'" if place.command.form.outer == '"' else '"'
    return place.rewritten(message.format("the new line"), [CHECK_BUILD.replace('"', quote)])


def launcher_for(script: Script | None, surroundings: Surroundings) -> str:
    """What starts a script after the migration: what its program says, what it imports, or what all programs need."""
    if script is not None and script.program is not None and script.program.launchers:
        return script.program.launchers[0]
    if script is not None:
        return surroundings.framework(script.file)
    known = {launcher for program in surroundings.programs for launcher in program.launchers}
    return WORKERS if known == {WORKERS} else "torchrun"


def _moved(place: Place, translation: Translation, script: Script | None) -> TextFinding:
    before = place.command.words[: place.position]
    environment = environment_before(translation, before, is_shell=place.command.form.is_shell)
    words = [*environment, *translation.words]
    message = "; ".join([f"{place.launcher} → {_shown(words, script)}", *translation.notes, *_assumed(script)])
    if not place.command.is_editable:
        return place.found("review", f"the text says how to start ranks; now: {message}")
    if script is not None and script.program is None and script.uses_horovod:
        raise RefusalError(f"{script.file.name} uses Horovod and is not among the given paths")
    programs = (script.program,) if script is not None and script.program is not None else ()
    launchers = (script.folder,) if script is not None and WORKERS in translation.words else ()
    return replace(place.rewritten(message, words), programs=programs, launchers=launchers)


def _shown(words: Sequence[Word | str], script: Script | None) -> str:
    """The new words up to the script, or what there is of a long line."""
    named = (n + 1 for n, word in enumerate(words) if script is not None and script.file.name in _text(word))
    return shown(words[: next(named, len(words))])


def _text(word: Word | str) -> str:
    return word if isinstance(word, str) else word.text


def _assumed(script: Script | None) -> Iterator[str]:
    if script is None:
        yield "the program that it starts is not in sight: it is taken to be migrated"
    elif not script.uses_horovod:
        yield f"{script.file.name} does not name Horovod: it is taken to be migrated"
