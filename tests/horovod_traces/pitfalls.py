"""The programs under ``fixtures/pitfalls`` that run: each prints under Horovod what its migration has to print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "pitfalls"
HANGS = {"object_to_all_ranks": "Horovod names an object by its type, and ranks that hold another one do not answer"}
RANKS = {"mean_not_sum": 4, "sum_divided_by_hand": 4, "gather_uneven": 3}


@dataclass(frozen=True)
class Pitfall:
    """A program that prints ``TRACE`` lines, and on how many ranks it runs."""

    name: str
    ranks: int

    @property
    def source(self) -> str:
        """The text of the program."""
        return (FOLDER / self.name / "before.py").read_text("utf-8")

    @property
    def hangs(self) -> str:
        """Why Horovod itself never gets to the end of it."""
        return HANGS.get(self.name, "")

    @property
    def migrated(self) -> str:
        """What ``test_fixtures.py`` holds the migration to."""
        return (FOLDER / self.name / "after.py").read_text("utf-8")


def pitfalls() -> Iterator[Pitfall]:
    """The programs that are migrated and print something."""
    for after in sorted(FOLDER.glob("*/after.py")):
        if '"TRACE ' in after.read_text("utf-8"):
            yield Pitfall(after.parent.name, RANKS.get(after.parent.name, 2))


# Horovod numbers tensors without a name, so no program may follow one in which workers have reduced unequally often.
PITFALLS = tuple(sorted(pitfalls(), key=lambda program: program.name == "joined_at_the_end"))
