"""Causes in the gradients: not reduced, reduced by another operation, clipped or divided at another moment."""

from __future__ import annotations

import math
from collections.abc import Sequence

from migrator.parity.comparison import Drift, Reason
from migrator.parity.evidence import (
    At,
    Evidence,
    apart,
    at_step,
    differs_by_rank,
    global_norm,
    gradient_ratio,
    gradients_at,
    is_mean_of,
    is_near,
    place_of,
    starts_apart,
)
from migrator.parity.trace import Tensor

LEAST_CLIPPED = 2


def not_reduced(evidence: Evidence) -> Reason | None:
    """Gradients that stay with their rank."""
    drift = evidence.drift("migrated")
    if drift is None or drift.step == 0:
        return None
    steps = at_step(evidence.migrated, drift)
    gradients = gradients_at(steps, place_of(evidence.migrated, drift))
    if not apart(gradients) and starts_apart(evidence.migrated, drift):
        return None
    if not apart(gradients):
        cause = "learning rates" if differs_by_rank(steps, lambda step: step.rates) else "optimizers' states"
        text = f"ranks of the migrated program part in step {drift.step}, with the same gradients: their {cause} differ"
        return Reason("ranks-part", text, "HVD205")
    others = f" (and {len(drift.names) - 1} more)" if len(drift.names) > 1 else ""
    mean = (
        ", of which the original applied the mean" if is_mean_of(_original_gradient(evidence, drift), gradients) else ""
    )
    text = (
        f"the migrated program does not reduce the gradients of {drift.parameter}{others}: from step {drift.step} on "
        f"each rank applies its own{mean}"
    )
    return Reason("not-reduced", text, "HVD201")


def _original_gradient(evidence: Evidence, drift: Drift) -> Tensor | None:
    place = place_of(evidence.migrated, drift)
    for pair in evidence.pairs:
        if pair.number == drift.optimizer and drift.step <= len(pair.steps):
            gradients = pair.steps[drift.step - 1].original.gradients
            return next((gradients[each.original] for each in pair.parameters if each.migrated == place), None)
    return None


def never_reduced(evidence: Evidence) -> Reason | None:
    """A reduction that is missing though the ranks happen to agree."""
    found = evidence.of("reduction")
    if found is None or not_reduced(evidence):
        return None
    what = "no gradients" if found.migrated == "0" else f"gradients of {found.migrated} elements"
    text = (
        f"the migrated program reduces {what}, the original {found.original} elements: ranks that are given different "
        "data would drift apart"
    )
    return Reason("never-reduced", text, "HVD201")


def missing_gradient(evidence: Evidence) -> Reason | None:
    """A gradient that is None where Horovod gave zeros."""
    at = evidence.at_gradient
    if at is None:
        return None
    for each in at.pair.parameters:
        ours, theirs = at.step.original.gradients[each.original], at.step.migrated.gradients[each.migrated]
        if theirs is None and ours is not None and ours.norm == 0:
            text = (
                f"{each.parameter.name} has no gradient in step {at.step.number} of the migrated program; Horovod gave "
                "it zeros, so that weight decay and momentum moved it (DDP's find_unused_parameters does this, and a "
                "step without a backward)"
            )
            return Reason("missing-gradient", text, "HVD201")
    return None


def clipped(evidence: Evidence) -> Reason | None:
    """Gradients clipped to another norm, before their mean is taken, or not at all."""
    at = evidence.at_gradient
    if at is None:
        return None
    ours, theirs = global_norm(at.step.original.gradients), global_norm(at.step.migrated.gradients)
    limit, other = (_clipped_to(list(map(global_norm, norms))) for norms in _gradients_by_side(at))
    if other is not None and is_near(theirs, other) and not is_near(ours, other):
        text = (
            f"the migrated program clips gradients to a norm of {theirs:.4g}, where the original's have {ours:.4g}: to "
            "another limit, or at another moment, as before a GradScaler divides by its scale"
        )
        return Reason("clipped-otherwise", text, "HVD202")
    if limit is None or not is_near(ours, limit) or is_near(theirs, limit):
        return None
    text = f"the original clips the mean of the gradients to a norm of {limit:.4g}, the migrated one has {theirs:.4g}"
    if theirs < limit:
        return Reason(
            "clipped-too-early", f"{text}, as if each rank clipped its own before the mean is taken", "HVD202"
        )
    return Reason("not-clipped", f"{text}: not clipped, or clipped before the ranks are added up", "HVD202")


def _gradients_by_side(at: At) -> tuple[list[Sequence[Tensor | None]], list[Sequence[Tensor | None]]]:
    steps = [step for step in at.pair.steps if step.original.gradients and step.migrated.gradients]
    return [step.original.gradients for step in steps], [step.migrated.gradients for step in steps]


def _clipped_to(norms: Sequence[float]) -> float | None:
    largest = max(norms, default=0.0)
    same = sum(math.isclose(each, largest, rel_tol=1e-4) for each in norms)
    return largest if largest and same >= LEAST_CLIPPED else None


def scaled(evidence: Evidence) -> Reason | None:
    """Gradients that are the original's, multiplied."""
    at = evidence.at_gradient
    times = gradient_ratio(at.pair, at.step) if at else None
    if at is None or times is None:
        return None
    name, cause = _cause_of_scale(evidence.size, at, times)
    loss = evidence.of("loss")
    is_loss = loss and loss.step == at.step.number and loss.distance and is_near(loss.distance.ratio, times)
    also = "; so is the loss, which is what is multiplied" if is_loss else ""
    found = at.difference
    others = f" and {found.count - 1} more" if found.count > 1 else ""
    which = "all gradients" if found.count == len(at.pair.parameters) else f"some gradients ({found.name}{others})"
    return Reason(name, f"{which} are {times:.4g} times the original's: {cause}{also}", "HVD201")


def _cause_of_scale(size: int, at: At, times: float) -> tuple[str, str]:
    passes = at.step.original.backwards
    sums = any(each.purpose == "gradients" and each.reduction == "sum" for each in at.step.original.collectives)
    if size > 1 and is_near(times, size):
        how = "added up once more" if sums else "added up where the original takes the mean"
        return "sum-for-mean", f"over the {size} ranks they are {how}"
    causes = []
    if size > 1 and is_near(times, 1 / size):
        averaged = "averaged where the original adds them up" if sums else "divided by the number of ranks twice"
        causes.append(f"over the {size} ranks they are {averaged}")
    if passes > 1 and is_near(times, 1 / passes):
        causes.append(f"they are divided by the {passes} backward passes, which Horovod does not do")
    if causes:
        return "divided", ", or ".join(causes)
    return "scaled", "a division or a scale is missing, or there is one too many"


def other_gradients(evidence: Evidence) -> Reason | None:
    """A loss or gradients that differ, of which nothing else is known."""
    at = evidence.at_first
    if at is None or at.difference.kind not in ("loss", "gradient"):
        return None
    number = at.step.number
    if at.difference.kind == "loss":
        text = f"with the same weights the loss of step {number} is another: it, or what the model is given, differs"
        return Reason("other-loss", text)
    text = (
        f"with the same weights and loss the gradients of step {number} are others: they are accumulated, reduced, "
        "clipped or scaled otherwise"
    )
    return Reason("other-gradients", text, "HVD201")
