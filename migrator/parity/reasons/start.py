"""Causes that lie before the first step, or in ranks that do not start or stay together."""

from __future__ import annotations

from migrator.parity.alignment import PairedOptimizer
from migrator.parity.comparison import Drift, Reason
from migrator.parity.conditions import RANDOM_STATE
from migrator.parity.distance import between_tensors
from migrator.parity.evidence import (
    Evidence,
    apart,
    at_step,
    collectives_of,
    differs_by_rank,
    gradients_at,
    starts_apart,
)


def not_broadcast(evidence: Evidence) -> Reason | None:
    """Ranks of the migrated program that start from different weights."""
    drift = evidence.drift("migrated")
    if drift is None or (drift.step > 0 and not starts_apart(evidence.migrated, drift)):
        return None
    if drift.step > 0:
        text = (
            "the ranks of the migrated program start from different weights, as those of the original do, and keep "
            f"them: the broadcast of rank 0's is missing, which the original makes before step {drift.step}"
        )
        return Reason("not-broadcast", text, "HVD204")
    text = (
        "the ranks of the migrated program start from different weights: the broadcast of rank 0's (or the DDP wrap, "
        "which does it) is missing, or comes before the last change of the weights"
    )
    return Reason("not-broadcast", text, "HVD204")


def never_broadcast(evidence: Evidence) -> Reason | None:
    """A broadcast that is missing though the ranks happen to agree."""
    if not evidence.of("broadcast") or not_broadcast(evidence):
        return None
    text = (
        "the migrated program never broadcasts the weights of rank 0; in this run the ranks start alike because they "
        "are seeded alike or load the same file"
    )
    return Reason("never-broadcast", text, "HVD204")


def initial_step(evidence: Evidence) -> Reason | None:
    """Horovod's step with zero gradients, which moves weights or leaves a state."""
    first = evidence.first
    pair = evidence.pair(first) if first else None
    stepped = [each for each in evidence.pairs if each.original_initial and not each.migrated_initial]
    if first is None or pair is None or not stepped or (first.step or 0) > 1:
        return None
    took = "Horovod's broadcast_optimizer_state took a step with zero gradients before training"
    left_out = "the migrated program leaves that step out"
    if first.kind == "weights" and any(_starts_before(pair, each) for each in stepped):
        text = f"{took}, in which weight decay moved the weights ({first.name}); {left_out}"
        return Reason("initial-step", text, "HVD205", is_expected=True)
    if first.kind == "parameter" and pair in stepped:
        text = f"{took}, which left {pair.original.type} with a state (Adam then starts at step 1); {left_out}"
        return Reason("initial-state", text, "HVD205", is_expected=True)
    return None


def _starts_before(pair: PairedOptimizer, stepped: PairedOptimizer) -> bool:
    """Whether the migrated program starts from what an initial step found, on this rank or one that broadcast later.

    The step may be that of another optimizer of the same parameters.
    """
    ours, theirs = pair.original.start, pair.migrated.start
    apart = [each for each in pair.parameters if between_tensors(ours[each.original], theirs[each.migrated])]
    names = [each.name for each in stepped.original.parameters]
    found = [dict(zip(names, step.before, strict=True)) for step in stepped.original_initial if step.before]
    return any(
        all(
            each.parameter.name in before
            and between_tensors(before[each.parameter.name], theirs[each.migrated]) is None
            for each in apart
        )
        for before in found
    )


def original_drift(evidence: Evidence) -> Reason | None:
    """The original's own ranks part where the migrated ones agree."""
    drift, first = evidence.drift("original"), evidence.first
    if drift is None or first is None or (first.step or 0) < min(drift.step, 1):
        return None
    cause, rule = _cause_of_drift(evidence, drift)
    when = f"from step {drift.step} on" if drift.step else "from the start"
    text = (
        f"the original's own ranks hold different weights {when} ({drift.parameter}), the migrated ones agree: {cause}"
    )
    return Reason("original-drifts", text, rule, is_expected=True)


def _cause_of_drift(evidence: Evidence, drift: Drift) -> tuple[str, str]:
    ranks, steps = evidence.original.ranks, at_step(evidence.original, drift)
    initial = [sum(step.is_initial for step in rank.steps) for rank in ranks]
    if drift.step == 0:
        return "it starts without giving all ranks the same weights", "HVD204"
    if any(each.kind == "join" for rank in ranks for each in collectives_of(rank)):
        return "under Horovod a rank that has joined keeps its weights while the others train on", "HVD306"
    if differs_by_rank(steps, lambda step: step.rates):
        return "their learning rates differ, which Horovod does not broadcast for an optimizer without state", "HVD205"
    if len(set(initial)) > 1:
        return "broadcast_optimizer_state took its step with zero gradients on some ranks only", "HVD205"
    gradients = [apart(gradients_at(steps, place)) for place in range(len(steps[0].gradients))] if steps else []
    if gradients and all(gradients):
        return "each applies its own gradients, as in step(closure), whose backward follows the reduction", "HVD202"
    if any(gradients):
        return "gradients of parameters that were frozen, or missing, when it was wrapped are not reduced", "HVD201"
    return "their optimizers hold different states", "HVD205"


def other_random_state(evidence: Evidence) -> Reason | None:
    """Random generators that were in another state before the first backward."""
    first = evidence.first
    other = [
        each.name.removeprefix(RANDOM_STATE)
        for each in evidence.found.conditions
        if each.name.startswith(RANDOM_STATE) and each.matters and not each.is_same
    ]
    if first is None or first.kind not in ("weights", "batch", "loss") or not other:
        return None
    text = (
        f"random generators ({', '.join(other)}) were in other states before the first backward: what is drawn differs"
    )
    return Reason("other-random-state", text)


def other_start(evidence: Evidence) -> Reason | None:
    """Weights that are other than the original's, though alike on all ranks."""
    if evidence.first is None or evidence.first.kind != "weights":
        return None
    text = (
        "the migrated program starts from other weights: another seed, order of initialization or file, or those of "
        "another rank"
    )
    return Reason("other-start", text)
