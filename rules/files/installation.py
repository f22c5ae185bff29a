"""A file with what it installs, the programs that it serves, and so with what may go."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from migrator.api import (
    Command,
    Document,
    Moved,
    Span,
    Surroundings,
    TextEdit,
    Variable,
    distribution_of,
)

from .horovod_variables import is_of_builds, is_of_horovod
from .installs import Install, asks_horovod, builds, installs, launches

FOLDERS = ("scripts", "bin", "launch", "launchers", "docker", "tools", "slurm", "jobs", "run")
_OTHERWISE = re.compile(rb"\bsparkdl(?:\s+import\s+(?!HorovodRunner\b|horovod\b)|\.(?!HorovodRunner\b|horovod\b)\w)")


@dataclass(frozen=True, eq=False)
class Installation:
    """What the rules for dependencies and variables ask of a file; each answer is found once."""

    document: Document
    surroundings: Surroundings

    @cached_property
    def served(self) -> tuple[Moved, ...]:
        """The programs for which the file installs things."""
        return self.surroundings.around(self.document.file)

    @cached_property
    def reason(self) -> str:
        """Why Horovod stays: the programs that still use it; empty where none does."""
        names = [program.name for program in self.served if not program.is_migrated]
        return f"stays while {', '.join(names)} still use{'s' * (len(names) == 1)} Horovod" if names else ""

    @cached_property
    def serves_surely(self) -> bool:
        """Whether a program that was migrated lies below the file, or beside the folder of scripts that it is in."""
        folder = self.document.file.parent
        folder = folder.parent if folder.name in FOLDERS else folder
        return any(file.is_relative_to(folder) for program in self.served for file in program.files)

    @cached_property
    def runtimes(self) -> tuple[str, ...]:
        """The distributions that go: sparkdl only where nothing but its runner is used."""
        is_used = "sparkdl" in self.document.text and any(
            _OTHERWISE.search(self.surroundings.read(file) or b"") for file in self.surroundings.files
        )
        return ("horovod",) if is_used else ("horovod", "sparkdl")

    @cached_property
    def installs(self) -> tuple[Install, ...]:
        """The commands that install something."""
        return tuple(installs(self.document, self.runtimes))

    @cached_property
    def present(self) -> frozenset[str]:
        """All that the file asks for."""
        listed = {item.name for each in self.document.parts.dependencies for item in each.items}
        return frozenset(listed | {distribution_of(word.value) for each in self.installs for word in each.asked})

    @cached_property
    def tests(self) -> tuple[Command, ...]:
        """The commands that try Horovod for its own sake, and so go with it."""
        return tuple(
            command
            for command in self.document.parts.commands
            if command.is_editable
            and command.place is not None
            and command.place.is_statement
            and asks_horovod(command)
        )

    @cached_property
    def going(self) -> tuple[Variable, ...]:
        """The variables that nothing but Horovod reads, and that the file itself does not use."""
        known = [each for each in self.document.parts.variables if each.name.startswith(("HOROVOD_", "HVD_"))]
        around = [command.place.span for command in self._without_effect if command.place is not None]
        around += [word.span for each in self.installs if each.command.is_editable for word in each.going]
        rest = _words(_blanked(self.document.text, [*around, *(each.span for each in known)]))
        gone = _words(" ".join(self.document.text[span.start : span.end] for span in around))
        names = {each.name for each in known}
        going = {name for name in names - rest if name in gone or is_of_horovod(name)}
        found = (each for each in known if each.name in going)
        return tuple(e for e in found if not (self._builds and is_of_builds(e.name) and not _within(e.span, around)))

    @cached_property
    def edits(self) -> tuple[tuple[TextEdit, ...], tuple[TextEdit, ...]]:
        """The edits that take whole statements out of shell: where commands go, and where variables only.

        They are made together, because one may leave the other without a statement before it.
        """
        commands = [*(each.command for each in self.installs if each.is_taken), *self.tests]
        ids = {command.place.id for command in commands if command.place is not None}
        together = Counter(each.place.id for each in self.going if each.place is not None)
        alone = [e for e in self.going if e.place is not None and together[e.place.id] == _size(e)]
        edits = self.document.without((*commands, *alone))
        of_variables = {each.place.id for each in alone if each.place is not None}
        for_commands = tuple(edit for edit, nodes in edits if nodes & ids or not nodes & of_variables)
        return for_commands, tuple(edit for edit, nodes in edits if not nodes & ids and nodes & of_variables)

    @property
    def _without_effect(self) -> Iterable[Command]:
        """The commands that go whole, and those whose options of Horovod go."""
        yield from (each.command for each in self.installs if each.is_taken)
        yield from self.tests
        yield from filter(launches, self.document.parts.commands)

    @cached_property
    def _builds(self) -> bool:
        """Whether the file builds Horovod from its sources, which is left to a person."""
        handled = {id(each.command) for each in self.installs if each.going}
        return any(builds(each) and id(each) not in handled for each in self.document.parts.commands)


def _within(span: Span, others: Iterable[Span]) -> bool:
    return any(other.start <= span.start < other.end for other in others)


def _size(variable: Variable) -> int:
    """The number of variables that are set in one statement."""
    return len(variable.row[0].items) if variable.row is not None else 1


def _words(text: str) -> frozenset[str]:
    """The names in a text, but for its comments."""
    lines = (line for line in text.split("\n") if not line.lstrip().startswith("#"))
    return frozenset(re.findall(r"\w+", "\n".join(lines)))


def _blanked(text: str, spans: Iterable[Span]) -> str:
    pieces, position = [], 0
    for span in sorted(spans, key=lambda span: span.start):
        pieces.append(text[position : span.start])
        position = max(position, span.end)
    return " ".join((*pieces, text[position:]))
