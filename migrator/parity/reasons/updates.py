"""Causes in the update: the learning rate, or what the optimizer keeps from step to step."""

from __future__ import annotations

import math

from migrator.parity.alignment import PairedOptimizer
from migrator.parity.comparison import Reason
from migrator.parity.distance import ratio
from migrator.parity.evidence import At, Evidence, differs_by_rank, is_near, steps_of
from migrator.parity.trace import Optimizer, Step

LEAST_SHIFTED = 2


def other_rate(evidence: Evidence) -> Reason | None:
    """A learning rate that was scaled or scheduled otherwise."""
    found = evidence.of("rate")
    at = evidence.at(found) if found else None
    if found is None or at is None or found.distance is None or _is_left_to_ranks(evidence, at):
        return None
    times, size = found.distance.ratio, evidence.size
    if lag := _lag(at.pair, at.step.number - 1):
        word = "late" if lag > 0 else "early"
        return Reason("rate-shifted", f"the schedule of the learning rate is one step {word} in the migrated program")
    if not _is_multiplied(at.pair, times):
        values = f"in step {at.step.number} it is {found.migrated}, in the original {found.original}"
        return Reason("other-schedule", f"the learning rate follows another schedule: {values}")
    if size > 1 and is_near(times, size):
        text = f"the learning rate is multiplied by the number of ranks ({size}) once more"
        return Reason("rate-scaled", text, "HVD103")
    if size > 1 and is_near(times, 1 / size):
        return Reason("rate-scaled", f"the learning rate is not multiplied by the number of ranks ({size})", "HVD103")
    text = f"the learning rate is {times:.4g} times the original's" if times else "the learning rates differ"
    return Reason("other-rate", text)


def _is_left_to_ranks(evidence: Evidence, at: At) -> bool:
    """Whether the original's ranks have learning rates of their own."""
    steps = [
        each[at.step.number - 1] for each in steps_of(evidence.original, at.pair.number) if len(each) >= at.step.number
    ]
    return differs_by_rank(steps, lambda step: step.rates)


def _is_multiplied(pair: PairedOptimizer, times: float | None) -> bool:
    """Whether the learning rates of all steps are the original's, multiplied by the same."""
    rates = [each for step in pair.steps for each in zip(step.original.rates, step.migrated.rates, strict=False)]
    return all(own == other == 0 or is_near(ratio(own, other), times) for own, other in rates if times is not None)


def _lag(pair: PairedOptimizer, place: int) -> int:
    ours = [step.original.rates for step in pair.steps]
    theirs = [step.migrated.rates for step in pair.steps]
    for lag in (1, -1):
        shifted = [(n - lag, theirs[n]) for n in range(place, len(theirs)) if 0 <= n - lag < len(ours)]
        if len(shifted) >= LEAST_SHIFTED and all(ours[n] == rates for n, rates in shifted):
            return lag
    return 0


def other_update(evidence: Evidence) -> Reason | None:
    """An update that differs though all that is known to go into it was the same."""
    at = evidence.at_first
    if at is None or at.difference.kind != "parameter" or (at.step.number == 1 and at.pair.original_initial):
        return None
    same = f"weights, gradients and learning rate of step {at.step.number} are the same, what it makes of them is not"
    is_fresh = (
        _is_fresh(at.pair.original, at.step.original),
        _is_fresh(at.pair.migrated, at.step.migrated),
    )
    if at.step.number == 1 and is_fresh == (True, False):
        text = (
            f"{same}: Horovod's DistributedOptimizer threw away the state of the optimizer that it wrapped (moments "
            "from a checkpoint, say), which the migrated program keeps"
        )
        return Reason("lost-state", text, "HVD205", is_expected=True)
    if at.step.number == 1 and is_fresh == (False, True):
        text = (
            f"{same}: the original goes on from a state (moments from a checkpoint, say), the migrated program afresh"
        )
        return Reason("fresh-state", text, "HVD205")
    return Reason(
        "other-update", f"{same}: options of the optimizers (momentum, weight decay) or states differ", "HVD205"
    )


def _is_fresh(optimizer: Optimizer, step: Step) -> bool:
    """Whether an update is what SGD or Adam without a state, in their plain forms, make of the gradients."""
    states = zip(optimizer.start, step.gradients, step.parameters, strict=False)
    is_adam = "Adam" in optimizer.type
    moves = [
        (after - before, -step.rates[0] * (math.copysign(1.0, slope) if is_adam else slope))
        for start, gradient, end in states
        if gradient is not None
        for before, slope, after in zip(start.sample, gradient.sample, end.sample, strict=False)
        if abs(slope) > 1e-6
    ]
    return bool(moves) and all(math.isclose(*move, rel_tol=0.02, abs_tol=1e-6) for move in moves)
