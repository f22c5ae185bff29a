"""Runs of the programs with a mistake in them: are they told from their originals, why, and which edit is blamed?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from forked import start_forked
from mistakes import Variation

from migrator.parity.compare import compare
from migrator.parity.comparison import Comparison
from migrator.parity.hybrids import Edit
from migrator.parity.launch import Launch, Recording
from migrator.parity.statements import Lines
from migrator.parity.trial import Files, Run, Trial, bisect, run

LIMIT = 60.0


def quiet(stage: str, launch: Launch) -> None:
    """Show nothing of a run."""


@dataclass(frozen=True)
class Runs:
    """Two runs of an original; what they differ by from each other is its noise."""

    first: Run
    again: Run


def original_runs(variation: Variation, folder: Path) -> Runs:
    """Run the original of a program twice."""
    original, _ = trials(variation, folder)
    first, again = (run(original, folder, name, quiet, start_forked) for name in ("first", "again"))
    return Runs(first, again)


def compared(variation: Variation, original: Runs, folder: Path) -> Comparison:
    """Run the migrated program and compare it with its original."""
    _, migrated = trials(variation, folder)
    side = run(migrated, folder, "migrated", quiet, start_forked).side
    comparison = compare(original.first.side, side)
    return compare(original.first.side, side, original.again.side) if comparison.wants_noise else comparison


def blamed(variation: Variation, folder: Path) -> str:
    """The edits that are blamed, as they stand in the original and in the migrated program."""
    found = bisect(*trials(variation, folder), folder / "between", quiet, start_forked)
    return "\n".join(_texts(variation, found.edits))


def is_named(variation: Variation, comparison: Comparison) -> bool:
    """Whether the first reason given, or the error, is the one that there is."""
    first = comparison.reasons[0].name if comparison.reasons else ""
    is_failure = comparison.verdict == "could-not-run" and variation.reason in comparison.sentence
    return first == variation.reason or is_failure


def trials(variation: Variation, folder: Path) -> tuple[Trial, Trial]:
    """The original, with the stand-in, and the migrated program."""
    tree, file = folder / "tree", PurePath(f"{variation.program}.py")
    tree.mkdir(parents=True)
    (tree / file).write_text(variation.original, "utf-8")
    launch = Launch(file.name, horovod="stand-in", device="cpu", recording=Recording(folder, seed=0), folder=Path())
    launch = replace(launch, limit=LIMIT)
    original = Trial(Files(tree), launch, (file,))
    written = {file: variation.migrated.encode()}
    return original, Trial(Files(tree, written), replace(launch, horovod="none"), (file,))


def _texts(variation: Variation, edits: Sequence[Edit]) -> list[str]:
    sides = variation.original.splitlines(), variation.migrated.splitlines()
    return [
        _text(side, lines) for edit in edits for side, lines in zip(sides, (edit.original, edit.migrated), strict=True)
    ]


def _text(source: Sequence[str], lines: Lines) -> str:
    return "\n".join(source[lines.first - 1 : lines.last])
