"""Which edits make a migrated program train differently: those without which it trains as the original did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Literal, TypeVar

Answer = Literal["equal", "different", "unknown"]
T = TypeVar("T")


@dataclass(frozen=True)
class Blame(Generic[T]):
    """The smallest found set of edits that, left out together, make the programs equal; empty if none does.

    ``tried`` counts the programs that ran.
    """

    edits: tuple[T, ...]
    tried: int


def blame(groups: Sequence[Sequence[T]], without: Callable[[frozenset[T]], Answer], most: int = 64) -> Blame[T]:
    """Find what to leave out of ``groups`` of edits; ``without`` runs the program without the given edits.

    Delta debugging (Zeller and Hildebrandt, 2002) over the sets left out, first of whole groups and then of their
    edits: programs that cannot run answer "unknown". At most ``most`` programs run; the set is then perhaps not the
    smallest.
    """
    answers: dict[frozenset[T], Answer] = {}

    def is_equal(left_out: Sequence[Sequence[T]]) -> bool:
        key = frozenset(edit for group in left_out for edit in group)
        if key not in answers and len(answers) < most:
            answers[key] = without(key)
        return answers.get(key) == "equal"

    if not groups or not is_equal(groups):
        return Blame((), len(answers))
    guilty = _smallest(groups, is_equal)
    guilty = _smallest([[edit] for group in guilty for edit in group], is_equal)
    return Blame(tuple(edit for group in guilty for edit in group), len(answers))


def _smallest(groups: Sequence[Sequence[T]], is_equal: Callable[[Sequence[Sequence[T]]], bool]) -> list[Sequence[T]]:
    guilty = list(groups)
    parts = 2
    while len(guilty) > 1:
        smaller = _smaller(guilty, parts, is_equal)
        if smaller is not None:
            parts = max(2, parts - 1) if len(smaller) > len(guilty) // parts + 1 else 2
            guilty = smaller
        elif parts >= len(guilty):
            break
        else:
            parts = min(len(guilty), 2 * parts)
    return guilty


def _smaller(
    guilty: Sequence[Sequence[T]], parts: int, is_equal: Callable[[Sequence[Sequence[T]]], bool]
) -> list[Sequence[T]] | None:
    """One of ``parts`` parts of the set that is enough, or the set without one of them."""
    ends = [len(guilty) * part // parts for part in range(parts + 1)]
    chunks = [list(guilty[first:last]) for first, last in pairwise(ends)]
    rests = [[each for each in guilty if each not in chunk] for chunk in chunks] if parts > 2 else []
    return next((part for part in [*chunks, *rests] if is_equal(part)), None)
