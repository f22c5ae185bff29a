"""What may differ without meaning: because runs of the original differ by as much, or because the user says so."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from migrator.parity.comparison import TRAINING, Difference, Kind

FACTOR = 4.0
NEVER: frozenset[Kind] = frozenset({"ranks", "optimizer", "broadcast", "reduction", "checkpoint-keys"})

Judge = Callable[[Difference], bool]


def judge(found: Sequence[Difference], variation: Sequence[Difference], given: float | None) -> Judge:
    """A function that tells of each difference whether it is noise.

    ``variation`` is how another run of the original differs from the first. One repetition is one draw: a distance
    is noise up to four times the largest of its kind until that step; before runs of the original differ, none is.
    """
    limits = _limits(variation)
    largest = max((each.worst for each in variation), default=0.0)

    def is_noise(each: Difference) -> bool:
        if each.kind in NEVER:
            return False
        if given is not None and each.distance is not None and each.worst <= given:
            return True
        if each.kind == "output":
            return each.distance is not None and each.worst <= FACTOR * largest
        limit = _limit(limits, each)
        return limit is not None and (each.distance is None or each.worst <= FACTOR * limit)

    training = [each for each in found if each.kind in TRAINING]
    explains_files = bool(training) and all(map(is_noise, training))
    return lambda each: is_noise(each) or (explains_files and each.kind == "checkpoint-values")


def largest_by_kind(variation: Sequence[Difference]) -> dict[Kind, float]:
    """The largest relative distance of each kind, zero for what has none."""
    kinds = dict.fromkeys(each.kind for each in variation)
    return {kind: max(each.worst for each in variation if each.kind == kind) for kind in kinds}


def _limits(variation: Sequence[Difference]) -> dict[Kind, tuple[list[float], list[float]]]:
    """By kind, the orders at which runs of the original differ, and the largest distance up to each."""
    limits = {}
    for kind in {each.kind for each in variation}:
        own = sorted((each.order, each.worst) for each in variation if each.kind == kind)
        limits[kind] = [order for order, _ in own], list(accumulate((worst for _, worst in own), max))
    return limits


def _limit(limits: dict[Kind, tuple[list[float], list[float]]], difference: Difference) -> float | None:
    orders, largest = limits.get(difference.kind, ([], []))
    place = bisect_right(orders, difference.order)
    return largest[place - 1] if place else None
