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


def blame(edits: Sequence[T], without: Callable[[frozenset[T]], Answer], most: int = 64) -> Blame[T]:
    """Find what to leave out of ``edits``; ``without`` runs the program without the given ones.

    Delta debugging (Zeller and Hildebrandt, 2002) over the sets left out: programs that cannot run answer "unknown".
    At most ``most`` programs run; the set is then perhaps not the smallest.
    """
    answers: dict[frozenset[T], Answer] = {}

    def is_equal(left_out: Sequence[T]) -> bool:
        key = frozenset(left_out)
        if key not in answers and len(answers) < most:
            answers[key] = without(key)
        return answers.get(key) == "equal"

    if not edits or not is_equal(edits):
        return Blame((), len(answers))
    guilty = list(edits)
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
    return Blame(tuple(guilty), len(answers))


def _smaller(guilty: Sequence[T], parts: int, is_equal: Callable[[Sequence[T]], bool]) -> list[T] | None:
    """One of ``parts`` parts of the set that is enough, or the set without one of them."""
    ends = [len(guilty) * part // parts for part in range(parts + 1)]
    chunks = [list(guilty[first:last]) for first, last in pairwise(ends)]
    rests = [[each for each in guilty if each not in chunk] for chunk in chunks] if parts > 2 else []
    return next((part for part in [*chunks, *rests] if is_equal(part)), None)
