"""What the search for reasons reads: both traces, what was paired of them, and what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from migrator.parity.alignment import PairedOptimizer, PairedStep, paired_ranks, real_steps
from migrator.parity.comparison import TRAINING, Comparison, Difference, Drift, Kind, SideName
from migrator.parity.distance import between_tensors, mean
from migrator.parity.trace import Collective, Rank, Step, Tensor, Trace

SAME_RATIO = 1e-3
LEAST_SHARE = 1e-4


@dataclass(frozen=True)
class At:
    """A difference with the optimizer and the step in which it was found."""

    difference: Difference
    pair: PairedOptimizer
    step: PairedStep


@dataclass(frozen=True)
class Evidence:
    """Both traces, the pairs made of them, and the comparison, still without reasons."""

    original: Trace
    migrated: Trace
    pairs: tuple[PairedOptimizer, ...]
    found: Comparison

    @property
    def size(self) -> int:
        """The number of ranks of the original."""
        return self.original.ranks[0].size if self.original.ranks else 0

    @cached_property
    def first(self) -> Difference | None:
        """The first difference of the training itself."""
        return next((each for each in self.found.differences if each.kind in TRAINING), None)

    @cached_property
    def at_first(self) -> At | None:
        """The optimizer and the step of the first difference, if that lies in a step."""
        return self.at(self.first) if self.first else None

    @cached_property
    def at_gradient(self) -> At | None:
        """The same of the gradients, if nothing but the loss of their step differs before them."""
        found, first = self.of("gradient"), self.first
        if found is None or first is None or first.kind not in ("loss", "gradient") or found.order != first.order:
            return None
        return self.at(found)

    def after_start(self) -> Evidence:
        """The same without what differs before the first step."""
        later = tuple(each for each in self.found.differences if each.kind != "weights")
        return replace(self, found=replace(self.found, differences=later))

    def of(self, kind: Kind) -> Difference | None:
        """The difference of one kind."""
        return next((each for each in self.found.differences if each.kind == kind), None)

    def drift(self, side: SideName) -> Drift | None:
        """Where the ranks of one side part, if the other side's do not do so as early."""
        own = next((each for each in self.found.drifts if each.side == side), None)
        other = next((each for each in self.found.drifts if each.side != side), None)
        return own if own and (other is None or own.step < other.step) else None

    def at(self, difference: Difference) -> At | None:
        """The optimizer and the step in which a difference was found."""
        pair = self.pair(difference)
        number = difference.step or 0
        return At(difference, pair, pair.steps[number - 1]) if pair and 0 < number <= len(pair.steps) else None

    def pair(self, difference: Difference) -> PairedOptimizer | None:
        """The optimizer in which a difference was found."""
        place = difference.rank, difference.optimizer
        return next((each for each in self.pairs if (each.rank, each.number) == place), None)

    def ranks(self) -> Iterator[tuple[Rank, Rank]]:
        """The ranks of both sides."""
        return paired_ranks(self.original, self.migrated)


def is_near(value: float | None, target: float) -> bool:
    """Whether a ratio is meant to be ``target``."""
    return value is not None and math.isclose(value, target, rel_tol=SAME_RATIO)


def gradient_ratio(pair: PairedOptimizer, step: PairedStep) -> float | None:
    """What those gradients of the original that differ are multiplied by, or None if that is not one number."""
    pairs = [each for each in _gradient_pairs(pair, step) if between_tensors(*each)]
    largest = max((ours.norm for ours, _ in pairs), default=0.0)
    ratios = [theirs.norm / ours.norm for ours, theirs in pairs if ours.norm > LEAST_SHARE * largest]
    first = ratios[0] if ratios else 1.0
    is_one = all(is_near(each, first) for each in ratios) and all(_is_scaled(*each, first) for each in pairs)
    return first if is_one and first and not is_near(first, 1.0) else None


def global_norm(gradients: Sequence[Tensor | None]) -> float:
    """The norm of all gradients together."""
    return math.sqrt(sum(each.norm**2 for each in gradients if each))


def steps_of(trace: Trace, optimizer: int) -> list[list[Step]]:
    """By rank, the real steps of an optimizer, by its place from 1."""
    return [
        [step for step in real_steps(rank) if step.optimizer == rank.optimizers[optimizer - 1].number]
        for rank in trace.ranks
        if len(rank.optimizers) >= optimizer
    ]


def at_step(trace: Trace, drift: Drift) -> list[Step]:
    """The step of each rank at which the ranks part."""
    return [steps[drift.step - 1] for steps in steps_of(trace, drift.optimizer) if 0 < drift.step <= len(steps)]


def starts_apart(trace: Trace, drift: Drift) -> bool:
    """Whether the ranks hold different values of the drifting parameter from the start."""
    place = place_of(trace, drift)
    optimizers = [each for rank in trace.ranks for each in rank.optimizers[drift.optimizer - 1 : drift.optimizer]]
    return apart([tensor for each in optimizers for tensor in each.start[place : place + 1]])


def differs_by_rank(steps: Sequence[Step], value: Callable[[Step], object]) -> bool:
    """Whether something is not the same in the steps of all ranks."""
    return any(value(step) != value(steps[0]) for step in steps[1:])


def place_of(trace: Trace, drift: Drift) -> int:
    """The place of the drifting parameter in its optimizer."""
    names = [each.name for each in trace.ranks[0].optimizers[drift.optimizer - 1].parameters]
    return names.index(drift.parameter)


def gradients_at(steps: Sequence[Step], place: int) -> list[Tensor | None]:
    """The gradient of one parameter on each rank."""
    return [step.gradients[place] for step in steps if place < len(step.gradients)]


def apart(gradients: Sequence[Tensor | None]) -> bool:
    """Whether gradients, one of each rank, are not all the same."""
    first, *others = gradients or [None]
    if first is None:
        return any(others)
    return any(each is None or between_tensors(first, each) for each in others)


def is_mean_of(tensor: Tensor | None, ranks: Sequence[Tensor | None]) -> bool:
    """Whether the recorded elements of ``tensor`` are the means of those of the ranks."""
    samples = [each.sample for each in ranks if each]
    if tensor is None or len(samples) < 2:
        return False
    means = [mean(values) or 0.0 for values in zip(*samples, strict=True)]
    return all(math.isclose(*pair, rel_tol=1e-3, abs_tol=1e-9) for pair in zip(tensor.sample, means, strict=False))


def collectives_of(rank: Rank) -> Iterator[Collective]:
    """All collectives of a rank."""
    for step in rank.steps:
        yield from step.collectives
    yield from rank.end.collectives if rank.end else ()


def _gradient_pairs(pair: PairedOptimizer, step: PairedStep) -> Iterator[tuple[Tensor, Tensor]]:
    ours, theirs = step.original.gradients, step.migrated.gradients
    for each in pair.parameters if ours and theirs else ():
        own, other = ours[each.original], theirs[each.migrated]
        if own and other and math.isfinite(own.norm) and math.isfinite(other.norm):
            yield own, other


def _is_scaled(ours: Tensor, theirs: Tensor, factor: float) -> bool:
    scale = max((abs(each) for each in theirs.sample), default=0.0)
    pairs = zip(ours.sample, theirs.sample, strict=False)
    return all(abs(own * factor - other) <= 10 * SAME_RATIO * scale for own, other in pairs)
