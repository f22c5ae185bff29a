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

from collections.abc import Iterator
from dataclasses import replace

from migrator.api import (
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

from ..launch.line import Line, Translation, alone, launcher_of, read_line, torchrun, workers

WORKERS = "launch_workers.py"
WRAPPERS = (
    *("time", "exec", "nohup", "env", "sudo", "srun", "docker", "nvidia-docker", "podman", "singularity", "apptainer"),
    *("timeout", "numactl", "nice", "stdbuf", "conda", "mamba", "poetry", "pipenv", "uv", "xvfb-run", "bash", "sh"),
    *("/bin/bash", "/bin/sh", "eval", "command", "kubectl", "ssh", "nsys", "jsrun", "enroot", "shifter", "unbuffer"),
)
ASKING = ("which", "type", "hash", "command", "man", "whereis", "test", "[", "-v")
CHECK_BUILD = 'python -c "import torch.distributed as d; assert d.is_available()"'


@file_rule("HVD651", "launch-line")
def launch_line(document: Document, surroundings: Surroundings) -> Iterator[TextFinding]:
    for command in document.parts.commands:
        position = next((n for n, word in enumerate(command.words) if launcher_of(word)), None)
        if position is not None:
            try:
                found = _line(document, command, position, surroundings)
            except (RefusalError, ValueError) as refusal:
                found = _finding(command, position, f"the line is left as it is: {refusal}", "blocked")
            if found is not None:
                yield found


def _line(document: Document, command: Command, position: int, surroundings: Surroundings) -> TextFinding | None:
    launcher = launcher_of(command.words[position])
    before = [word.value for word in command.words[:position]]
    if before and before[0] not in WRAPPERS:
        return _mention(document, command, position, before) if launcher == "horovodrun" else None
    line = read_line(command.words[position:])
    if line.values("check_build") or line.values("version"):
        return _question(document, command, position)
    started = line.started
    script = surroundings.script(document.file, started.script, is_module=started.is_module) if started.script else None
    if launcher != "horovodrun" and not _is_ours(document, script):
        return None
    translation = _translated(line, script, surroundings)
    return _moved(document, command, position, translation, script, surroundings)


def _is_ours(document: Document, script: Script | None) -> bool:
    """Whether an MPI launcher starts a program of Horovod: its script does use it, or nothing but the file tells."""
    return script.uses_horovod if script is not None else "horovod" in document.text.lower()


def _mention(document: Document, command: Command, position: int, before: list[str]) -> TextFinding:
    if before[0] in ASKING:
        return _finding(command, position, "asks for horovodrun, which goes with Horovod: ask for torchrun", "review")
    return _finding(command, position, "names horovodrun in a text or as an argument, which is left as it is", "note")


def _question(document: Document, command: Command, position: int) -> TextFinding:
    """``horovodrun --check-build`` and ``--version``: PyTorch needs no build of its own."""
    message = "asks what Horovod was built with: asks whether torch.distributed is available instead"
    if not command.form.is_shell or not command.is_editable:
        return _finding(command, position, f"{message.partition(':')[0]}; {CHECK_BUILD} asks that of PyTorch", "review")
    words: list[Word | str] = [
        *command.words[:position],
        CHECK_BUILD if not command.form.outer else CHECK_BUILD.replace('"', "'"),
    ]
    edits = tuple(reworded(document.text, command, words))
    return replace(_finding(command, position, message, "review"), edits=edits)


def launcher_for(script: Script | None, surroundings: Surroundings) -> str:
    """What starts a script after the migration: what its program says, what it imports, or what all programs need."""
    if script is not None and script.program is not None and script.program.launchers:
        return script.program.launchers[0]
    if script is not None:
        return surroundings.framework(script.file)
    known = {launcher for program in surroundings.programs for launcher in program.launchers}
    return WORKERS if known == {WORKERS} else "torchrun"


def _translated(line: Line, script: Script | None, surroundings: Surroundings) -> Translation:
    launcher = launcher_for(script, surroundings)
    if launcher == WORKERS:
        return workers(line, WORKERS)
    return alone(line) if launcher == "python" else torchrun(line)


def _moved(
    document: Document,
    command: Command,
    position: int,
    translation: Translation,
    script: Script | None,
    surroundings: Surroundings,
) -> TextFinding:
    head: list[Word | str] = list(command.words[:position])
    words = [*head, *_environment(command, position, translation), *translation.words]
    shown = " ".join(word if isinstance(word, str) else word.text for word in words[position:])
    message = "; ".join([f"{launcher_of(command.words[position])} → {shown}", *translation.notes, *_assumed(script)])
    if not command.is_editable:
        return _finding(command, position, f"the text says how to start ranks; now: {message}", "review")
    if script is not None and script.program is None and script.uses_horovod:
        raise RefusalError(f"{script.file.name} uses Horovod and is not among the given paths")
    programs = (script.program,) if script is not None and script.program is not None else ()
    launchers = (script.folder,) if script is not None and WORKERS in translation.words else ()
    edits = tuple(reworded(document.text, command, words))
    found = _finding(command, position, message, "review")
    return replace(found, edits=edits, programs=programs, launchers=launchers)


def _environment(command: Command, position: int, translation: Translation) -> list[str]:
    """The variables to set, before the launcher; only a shell takes them there without ``env``."""
    if not translation.environment:
        return []
    bare = command.form.is_shell and (position == 0 or command.words[0].value == "time")
    return [*([] if bare else ["env"]), *translation.environment]


def _assumed(script: Script | None) -> Iterator[str]:
    if script is None:
        yield "the program that it starts is not in sight: it is taken to be migrated"
    elif not script.uses_horovod:
        yield f"{script.file.name} does not name Horovod: it is taken to be migrated"


def _finding(command: Command, position: int, message: str, class_: str) -> TextFinding:
    word = command.words[position]
    return TextFinding(word.span, class_, message, symbol=launcher_of(word))  # type: ignore[arg-type]
