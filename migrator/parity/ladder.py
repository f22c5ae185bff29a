"""How a program's throughput grows with the number of ranks, and what that advises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from migrator.parity.progress import steps_per_second
from migrator.parity.trial import Shows, Trial, run

WORTH = 1.2


@dataclass(frozen=True)
class Rung:
    """A size with the steps that each of its ranks takes in a second."""

    size: int
    steps_per_second: float

    @property
    def throughput(self) -> float:
        """The batches that all ranks together get through in a second."""
        return self.size * self.steps_per_second


@dataclass(frozen=True)
class Ladder:
    """The sizes that a program ran at, and what ended the climb, if not the last of them."""

    rungs: tuple[Rung, ...] = ()
    failure: str = ""

    @property
    def advice(self) -> tuple[str, ...]:
        """What follows for training."""
        return tuple(text for text in (advice(self.rungs) if self.rungs else "", self.failure) if text)


def climb(trial: Trial, sizes: Sequence[int], results: Path, shows: Shows) -> Ladder:
    """Run a program at each size as long as it runs to its end, and measure it."""
    rungs: list[Rung] = []
    for size in sizes:
        sized = replace(trial, launch=replace(trial.launch, size=size))
        side = run(sized, results, f"ladder {size}", shows).side
        speed = steps_per_second(side.trace)
        if side.failure or speed is None:
            why = side.failure.message if side.failure else "it took fewer than two steps"
            return Ladder(tuple(rungs), f"On {size} ranks it could not be measured: {why}")
        rungs.append(Rung(size, speed))
    return Ladder(tuple(rungs))


def efficiency(rung: Rung, first: Rung) -> float:
    """The share of its speed that a rank keeps, as against the smallest size."""
    return rung.steps_per_second / first.steps_per_second


def advice(rungs: Sequence[Rung]) -> str:
    """Which size to train on: the largest for which each step up to it brought at least a fifth more throughput."""
    best = rungs[0]
    for rung in rungs[1:]:
        if rung.throughput < WORTH * best.throughput:
            break
        best = rung
    if best.size == 1:
        return "Train in one process: more ranks of this machine do not get through more batches."
    if best is not rungs[-1]:
        return f"Train on one machine with {best.size} ranks: more bring less than a fifth more throughput."
    return (
        f"Train on one machine with {best.size} ranks or more; measure all its GPUs before a second machine, which is "
        "slower to talk to."
    )
