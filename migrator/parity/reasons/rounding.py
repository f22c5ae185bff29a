"""Causes of differences in the last bits, from which an optimizer can make large ones."""

from __future__ import annotations

from migrator.parity.collectives import live_elements, reduced_in
from migrator.parity.comparison import Reason
from migrator.parity.evidence import At, Evidence
from migrator.parity.trace import Step

HALF = ("float16", "bfloat16")
ARITHMETIC = frozenset(
    {"platform", "device", "gpu", "torch", "cuda", "threads", "deterministic", "OMP_NUM_THREADS"}
    | {"tensorflow", "keras", "oneDNN", "TF_ENABLE_ONEDNN_OPTS", "intra-op threads", "TF_NUM_INTRAOP_THREADS"}
)
LARGEST_OF_SPARSE = 1e-4
LEAST_SEVERAL = 2


def half_precision(evidence: Evidence) -> Reason | None:
    """Gradients that travel as 16-bit floats."""
    at = evidence.at_gradient
    if at is None or any(_is_half(each.parameter.dtype) for each in at.pair.parameters):
        return None
    ours, theirs = (next(filter(_is_half, _sent(step)), "") for step in (at.step.original, at.step.migrated))
    sent = ours or theirs
    if not sent:
        return None
    if bool(ours) != bool(theirs):
        who = "original" if ours else "migrated program"
        return Reason(
            "half-precision", f"gradients travel as {sent} in the {who} only, and lose bits in that", "HVD201"
        )
    text = (
        f"gradients travel as {sent}: DDP's hook divides before it adds up, Horovod after it, and small numbers lose "
        "bits in that"
    )
    return Reason("half-precision", text, "HVD201", is_expected=True)


def sparse(evidence: Evidence) -> Reason | None:
    """Sparse gradients, whose summands come in another order."""
    at = evidence.at_gradient
    if at is None or at.difference.worst > LARGEST_OF_SPARSE:
        return None
    if not 0 < reduced_in(at.step.original.collectives) < live_elements(at.pair, at.step):
        return None
    text = "sparse gradients are added up in another order, which changes the last bits"
    return Reason("sparse-order", text, "HVD201", is_expected=True)


def several_reductions(evidence: Evidence) -> Reason | None:
    """Gradients that DDP reduces at each backward."""
    at = _rounded(evidence)
    if at is None or at.step.migrated.backwards < LEAST_SEVERAL:
        return None
    text = (
        f"{at.step.migrated.backwards} backward passes come before the step: Horovod reduces their sum once, DDP each "
        "by itself, which changes the last bits"
    )
    return Reason("several-reductions", text, "HVD201", is_expected=True)


def many_ranks(evidence: Evidence) -> Reason | None:
    """Sums of more than two numbers, in which the order counts."""
    if _rounded(evidence) is None or evidence.size <= LEAST_SEVERAL:
        return None
    text = (
        f"the sum over {evidence.size} ranks is taken in another order, which changes the last bits; over 2 it cannot"
    )
    return Reason("order-of-ranks", text, "HVD201", is_expected=True)


def other_arithmetic(evidence: Evidence) -> Reason | None:
    """Rounding of gradients in runs that were not made alike."""
    return of_surroundings(evidence) if _rounded(evidence) else None


def other_arithmetic_of_values(evidence: Evidence) -> Reason | None:
    """The same of losses, and of what optimizers make of gradients."""
    at = evidence.at_first
    is_value = at and at.difference.kind in ("loss", "parameter")
    is_rounded = at and at.difference.distance and at.difference.distance.is_rounding
    return of_surroundings(evidence) if is_value and is_rounded else None


def of_surroundings(evidence: Evidence) -> Reason | None:
    """What is not alike in the two runs and makes numbers round otherwise."""
    other = [each.name for each in evidence.found.conditions if each.name in ARITHMETIC and not each.is_same]
    if not other:
        return None
    text = f"the runs differ in {', '.join(other)}, so that the same arithmetic need not round alike"
    return Reason("other-arithmetic", text, is_expected=True)


def rounding(evidence: Evidence) -> Reason | None:
    """Rounding for which nothing else is in sight."""
    if _rounded(evidence) is None:
        return None
    text = (
        "the first difference has the size of rounding: the same numbers are divided or added up in another order, as "
        "where a gradient_predivide_factor that is no power of two is left out, or gradients are too small for their "
        "dtype"
    )
    return Reason("rounding", text, "HVD201", is_expected=True)


def _rounded(evidence: Evidence) -> At | None:
    at = evidence.at_gradient
    is_rounded = (
        at and at.difference.kind == "gradient" and at.difference.distance and at.difference.distance.is_rounding
    )
    return at if is_rounded else None


def _sent(step: Step) -> list[str]:
    """The dtypes in which a step's gradients are reduced."""
    return [each.dtype for each in step.collectives if each.purpose == "gradients"]


def _is_half(dtype: str) -> bool:
    return dtype.rpartition(".")[2] in HALF
