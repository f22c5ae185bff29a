"""A proof of parity as a whole: the comparison, how both sides were run, and which edits the evidence covers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from migrator.parity.comparison import Comparison
from migrator.result import Class

HorovodKind = Literal["real", "stand-in", "none"]
LEAST_SPEED = 0.95
LEAST_STEPS = 20


@dataclass(frozen=True)
class RunFacts:
    """How one side was run: ``deterministic`` are the settings that were made for it, ``seconds`` its whole time."""

    command: tuple[str, ...]
    versions: Mapping[str, str]
    horovod: HorovodKind
    device: str
    deterministic: tuple[str, ...]
    size: int
    seconds: float
    steps_per_second: float | None = None


@dataclass(frozen=True)
class EditEvidence:
    """An edit, and whether the original executed the place of it; None where that is not known."""

    rule: str
    path: str
    line: int
    message: str
    class_: Class
    exercised: bool | None


@dataclass(frozen=True)
class FileEvidence:
    """How many of a file's changed lines the migrated run executed, of those that can be."""

    path: str
    executed: int
    total: int


@dataclass(frozen=True)
class Bisection:
    """The groups of edits without which the difference goes away, and how many runs that took."""

    blamed: tuple[str, ...]
    tried: int


@dataclass(frozen=True)
class LadderRow:
    """Throughput at one number of ranks; ``efficiency`` is against the same number of single ranks."""

    size: int
    steps_per_second: float
    efficiency: float


@dataclass(frozen=True)
class ParityReport:
    """Everything that a report of parity shows."""

    program: str
    comparison: Comparison
    original: RunFacts
    migrated: RunFacts
    edits: tuple[EditEvidence, ...] = ()
    files: tuple[FileEvidence, ...] = ()
    bisection: Bisection | None = None
    ladder: tuple[LadderRow, ...] = ()
    advice: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()

    @property
    def speed(self) -> float | None:
        """How fast the migrated program is, where the original is 1."""
        ours, theirs = self.original.steps_per_second, self.migrated.steps_per_second
        return theirs / ours if ours and theirs else None

    @property
    def speed_sentence(self) -> str:
        """What there is to say about the speed, or nothing where too few steps were taken to tell."""
        if self.speed is None or self.comparison.extent.steps < LEAST_STEPS:
            return ""
        share = f"{abs(self.speed - 1):.0%}"
        original = "the original" + (" with the stand-in for Horovod" if self.original.horovod == "stand-in" else "")
        if self.speed < LEAST_SPEED:
            return f"the migrated program is slower than {original}, by {share}"
        return f"the migrated program is not slower than {original} ({'+' if self.speed >= 1 else '-'}{share})"

    @property
    def is_slower(self) -> bool:
        """Whether the migrated program is slower by more than single runs vary."""
        return bool(self.speed_sentence) and self.speed is not None and self.speed < LEAST_SPEED

    @property
    def suggestions(self) -> tuple[str, ...]:
        """What to do next: what follows from the verdict, then what the caller adds."""
        return (*_suggestions(self), *self.next_steps)

    @property
    def coverage(self) -> str:
        """How many of the edits ran, or nothing where there are none."""
        asked = [each for each in self.edits if each.exercised is not None]
        ran = sum(each.exercised is True for each in asked)
        return f"{ran} of {len(asked)} edits were exercised by the run" if asked else ""


def _suggestions(report: ParityReport) -> Iterator[str]:
    comparison = report.comparison
    rules = dict.fromkeys(reason.rule for reason in comparison.reasons if reason.rule)
    for side in comparison.failures:
        run = report.original if side == "original" else report.migrated
        yield f"make the {side} program run by itself: {' '.join(run.command)}"
    if comparison.verdict in ("within-noise", "different"):
        yield from (f"hvd-migrate explain {rule}" for rule in rules)
    if comparison.verdict == "different" and report.edits and report.bisection is None:
        yield "hvd-migrate parity --bisect names the edits that make the difference"
    missed = sum(each.exercised is False for each in report.edits)
    if missed:
        edits, them = ("the edit", "it") if missed == 1 else (f"the {missed} edits", "them")
        yield f"review {edits} that did not run, or run with arguments that reach {them}"
