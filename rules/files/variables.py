"""HVD653 variables: variables of Horovod go from files, those of its ranks become torchrun's.

What a build of Horovod was told (``HOROVOD_WITH_PYTORCH=1 pip install ...``) goes with it. What tuned Horovod at run
time has no effect any more and goes too; where PyTorch has such a setting, the finding names it. Scripts that read the
rank from what horovodrun or mpirun exported read what torchrun exports. A variable that the file uses itself, or that
Horovod does not know, is named and left. All of it stays while a program that the file serves still uses Horovod.

Example:

```sh
export HOROVOD_FUSION_THRESHOLD=33554432
CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK python train.py
```

Use instead:

```sh
CUDA_VISIBLE_DEVICES=$LOCAL_RANK python train.py
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from migrator.api import Class, Document, Expansion, Row, Span, Surroundings, TextEdit, TextFinding, Variable, file_rule

from ..launch.environment import INSTEAD, VARIABLES
from .horovod_variables import is_of_builds, is_of_horovod
from .installation import Installation
from .installs import launches

NO_EFFECT = "goes: it has no effect after the migration"


@file_rule("HVD653", "variables")
def variables(document: Document, surroundings: Surroundings) -> Iterator[TextFinding]:
    installation = Installation(document, surroundings)
    yield from _set(installation)
    yield from _handed_on(installation)
    gone = [each.statement for each in installation.going] if not installation.reason else []
    for expansion in document.parts.expansions:
        is_gone = any(span.start <= expansion.span.start < span.end for span in gone)
        if expansion.name in VARIABLES and not is_gone:
            yield _read(installation, expansion)


def _set(installation: Installation) -> Iterator[TextFinding]:
    going = set() if installation.reason else {id(each) for each in installation.going}
    edits = _edits(installation) if going else ()
    for variable in installation.document.parts.variables:
        name = variable.name
        instead = f"; {INSTEAD[name]}" if name in INSTEAD else ""
        if id(variable) in going:
            class_: Class = "exact" if is_of_builds(name) else "review"
            found = _finding(variable.span, f"{name} {NO_EFFECT}{instead}", name)
            yield replace(found, class_=class_, edits=edits, programs=installation.served)
            edits = ()
        elif name.startswith(("HOROVOD_", "HVD_")):
            yield _finding(variable.span, f"{name} {installation.reason or _why(name)}{instead}", name)


def _handed_on(installation: Installation) -> Iterator[TextFinding]:
    """Variables that a command is given as words: ``env NAME=value``, ``docker run -e NAME=value``."""
    for command in installation.document.parts.commands:
        for word in command.words if not launches(command) else ():
            name, _, value = word.value.partition("=")
            if is_of_horovod(name):
                why = installation.reason or ("has no effect after the migration" if value else "is named")
                yield _finding(word.span, f"{name} {why}: the command is left as it is", name)


def _why(name: str) -> str:
    if not is_of_horovod(name):
        return "stays, since it is none that Horovod knows: take it out if nothing reads it"
    if is_of_builds(name):
        return "stays, since the file builds Horovod, or uses it elsewhere"
    return "stays, since the file uses it elsewhere: Horovod does not read it any more"


def _edits(installation: Installation) -> tuple[TextEdit, ...]:
    """The edits for all variables; those within what goes anyway need none."""
    with_commands, alone = installation.edits
    whole = [edit.span for edit in (*with_commands, *alone)]
    rest = [e for e in installation.going if not any(span.start <= e.span.start < span.end for span in whole)]
    prefixes = (TextEdit(each.statement, "") for each in rest if each.is_prefix)
    rows: dict[int, tuple[Row, dict[int, Variable]]] = {}
    for each in rest:
        if each.row is not None:
            rows.setdefault(id(each.row[0]), (each.row[0], {}))[1][each.row[1]] = each
    listed = [edit for row, members in rows.values() for edit in _of_row(installation.document.text, row, members)]
    return (*alone, *prefixes, *listed)


def _of_row(text: str, row: Row, members: dict[int, Variable]) -> Iterator[TextEdit]:
    """Some of a row, or what holds it where nothing is left."""
    holders = next(iter(members.values())).holders
    if len(members) == len(row.items) and holders:
        holder, index = holders[0]
        yield from holder.without(text, {index: ""})
        return
    yield from row.without(text, dict.fromkeys(members, ""))


def _read(installation: Installation, expansion: Expansion) -> TextFinding:
    """Where a script reads what a launcher exported."""
    name, reason = expansion.name, installation.reason
    is_ours = name.startswith("HOROVOD_") or "horovod" in installation.document.text.lower()
    if not reason and any(each.name == name for each in installation.document.parts.variables):
        return _finding(expansion.span, f"{name} stays, since the file sets it itself", name)
    if reason or not (is_ours or installation.serves_surely):
        why = reason or "stays, since nothing tells that Horovod's launcher set it"
        return _finding(expansion.span, f"{name} {why}; torchrun sets {VARIABLES[name]}", name)
    found = _finding(expansion.span, f"{name} → {VARIABLES[name]}, which torchrun sets", name)
    return replace(found, edits=(TextEdit(expansion.span, VARIABLES[name]),), programs=installation.served)


def _finding(span: Span, message: str, name: str) -> TextFinding:
    return TextFinding(span, "review", message, symbol=name)
