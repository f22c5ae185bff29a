"""The one model of a run's outcome, which every report renders."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

Class = Literal["exact", "review", "blocked", "note"]
FileStatus = Literal["changed", "unchanged", "skipped", "failed"]
ProgramStatus = Literal["migrated", "blocked", "partial", "clean"]


@dataclass(frozen=True, order=True)
class Diagnostic:
    """A finding with its place; lines and columns count from 1."""

    path: str
    line: int
    column: int
    rule: str
    class_: Class
    symbol: str
    message: str
    program: str


@dataclass(frozen=True)
class FileResult:
    """What became of one file: ``after`` is its new content, equal to ``before`` unless ``changed``.

    ``shown`` are both as a person reads them, where bytes are not read as they are: the code of a notebook's cells.
    """

    path: str
    status: FileStatus
    reason: str = ""
    before: bytes = b""
    after: bytes = b""
    encoding: str = "utf-8"
    is_new: bool = False
    shown: tuple[str, str] | None = None


@dataclass(frozen=True)
class ProgramResult:
    """Files that move together; ``next_steps`` tells a person what to do after the rewrite.

    ``notes`` say what the rewrite is for, where that was chosen.
    """

    name: str
    files: tuple[str, ...]
    status: ProgramStatus
    next_steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """Everything a run found, in an order that does not depend on the number of processes."""

    findings: tuple[Diagnostic, ...] = ()
    files: tuple[FileResult, ...] = ()
    programs: tuple[ProgramResult, ...] = ()

    @property
    def changed(self) -> tuple[FileResult, ...]:
        """The files whose content differs after the run."""
        return tuple(file for file in self.files if file.status == "changed")

    @property
    def unread(self) -> tuple[FileResult, ...]:
        """The files that could not be read, parsed or written."""
        return tuple(file for file in self.files if file.status == "failed")

    @property
    def blocked(self) -> tuple[ProgramResult, ...]:
        """The programs of which nothing is written, or not all."""
        return tuple(program for program in self.programs if program.status in ("blocked", "partial"))

    def count_by_class(self) -> dict[str, int]:
        """Number of findings of each class, zero included."""
        counts = Counter(finding.class_ for finding in self.findings)
        return {name: counts[name] for name in ("exact", "review", "blocked", "note")}
