"""Why two runs differ, read from their traces: what a right migration changes too, and what a wrong one does.

Each finder looks for one cause. None makes a difference smaller: a reason explains, it does not excuse.
"""

from __future__ import annotations

from collections.abc import Callable

from migrator.parity.comparison import Reason
from migrator.parity.evidence import Evidence
from migrator.parity.reasons import data, gradients, rounding, start, surroundings, updates

Find = Callable[[Evidence], Reason | None]

CAUSES: tuple[Find, ...] = (
    gradients.not_reduced,
    start.not_broadcast,
    start.initial_step,
    start.original_drift,
    rounding.other_arithmetic_of_values,
    start.other_random_state,
    start.other_start,
    data.other_batches,
    gradients.missing_gradient,
    gradients.clipped,
    gradients.scaled,
    updates.other_update,
    rounding.half_precision,
    rounding.sparse,
    rounding.several_reductions,
    rounding.many_ranks,
    rounding.other_arithmetic,
    rounding.rounding,
    gradients.other_gradients,
)
# What shows even in numbers that differ a little for a reason that is expected.
EVEN_SO: tuple[Find, ...] = (gradients.missing_gradient, gradients.clipped, gradients.scaled)
BESIDE: tuple[Find, ...] = (
    surroundings.not_deterministic,
    surroundings.other_keras,
    start.never_broadcast,
    gradients.never_reduced,
    updates.other_rate,
    data.other_steps,
    surroundings.other_collective,
    surroundings.unordered_collectives,
    surroundings.other_output,
    surroundings.other_keys,
    surroundings.other_buffers,
    surroundings.other_file,
    surroundings.other_saves,
)
# What a program that did not come to its end lacks tells nothing.
AT_THE_END: frozenset[Find] = frozenset(
    {
        data.other_steps,
        surroundings.other_output,
        surroundings.other_keys,
        surroundings.other_buffers,
        surroundings.other_file,
        surroundings.other_saves,
    }
)


def reasons(evidence: Evidence) -> tuple[Reason, ...]:
    """The likeliest cause of the first difference in training, and what else the traces give reason to say."""
    if not evidence.found.differences:
        return ()
    cause = _first(CAUSES, evidence)
    hidden = _first(EVEN_SO, evidence.after_start()) if cause and cause.is_expected else None
    beside = [find for find in BESIDE if find not in AT_THE_END or not evidence.found.failures]
    found = [cause, hidden, *(find(evidence) for find in beside)]
    named: dict[str, Reason] = {}
    for reason in filter(None, found):
        named.setdefault(reason.name, reason)
    is_noise = evidence.found.verdict == "within-noise"
    return tuple(reason for reason in named.values() if reason.is_expected or not is_noise)


def _first(finders: tuple[Find, ...], evidence: Evidence) -> Reason | None:
    return next((reason for find in finders if (reason := find(evidence))), None)
