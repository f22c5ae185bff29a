"""Causes around the training: collectives of the program itself, what it prints and saves, and chance."""

from __future__ import annotations

from migrator.parity import collectives
from migrator.parity.alignment import is_cut_off
from migrator.parity.comparison import Reason
from migrator.parity.evidence import Evidence, is_near
from migrator.parity.reasons.rounding import of_surroundings


def not_deterministic(evidence: Evidence) -> Reason | None:
    """The original differs from itself."""
    measured = evidence.found.noise.measured if evidence.found.noise else {}
    if not measured:
        return None
    kind, worst = max(measured.items(), key=lambda each: each[1])
    size = f"{kind}, up to {worst:.2g} relative" if worst else kind
    return Reason(
        "not-deterministic", f"two runs of the original differ from each other too ({size})", is_expected=True
    )


def other_keras(evidence: Evidence) -> Reason | None:
    """Keras 2 on one side, Keras 3 on the other."""
    found = next((each for each in evidence.found.conditions if each.name == "keras"), None)
    if found is None or {found.original[:2], found.migrated[:2]} != {"2.", "3."}:
        return None
    text = (
        f"the original trains with Keras {found.original}, the migrated program with Keras {found.migrated}, where "
        "optimizers, layers and names are others (TF_USE_LEGACY_KERAS=1 asks for Keras 2, the package tf_keras)"
    )
    return Reason("other-keras", text, is_expected=True)


def other_collective(evidence: Evidence) -> Reason | None:
    """A value that is reduced otherwise, by some ranks only, or not."""
    found = evidence.of("collective")
    if found is None:
        return None
    mismatches = {ours.rank: collectives.mismatch_of(ours, theirs) for ours, theirs in evidence.ranks()}
    mismatch = mismatches.get(found.rank or 0)
    if mismatch is None:
        return None
    others = [theirs for _, theirs in evidence.ranks() if mismatches[theirs.rank] is None]
    is_sure = not all(map(is_cut_off, others))
    who = f"rank {found.rank}{' alone' * is_sure}" if others else "the migrated program"
    return _named(mismatch, who, "; the others wait for it, or take it for their next" if others else "")


def _named(mismatch: collectives.Mismatch, who: str, waiting: str) -> Reason:
    ours, theirs = mismatch.original, mismatch.migrated
    texts = collectives.shown(ours), collectives.shown(theirs)
    if theirs is None:
        return Reason("missing-collective", f"{who} leaves out the original's {texts[0]}{waiting}", "HVD301")
    if ours is None:
        return Reason("extra-collective", f"{who} adds a collective, {texts[1]}{waiting}", "HVD301")
    reductions = ours.collective.reduction, theirs.collective.reduction
    if ours.collective.kind == theirs.collective.kind and reductions[0] != reductions[1]:
        text = f"{who} reduces a value by {reductions[1]}, the original by {reductions[0]}"
        return Reason("other-reduction", text, "HVD301")
    return Reason("other-collective", f"{who} calls {texts[1]} where the original calls {texts[0]}", "HVD301")


def unordered_collectives(evidence: Evidence) -> Reason | None:
    """Collectives that ranks call in different orders."""
    found = collectives.other_order(evidence.migrated)
    if found is None:
        return None
    rank, mismatch = found
    texts = collectives.shown(mismatch.migrated), collectives.shown(mismatch.original)
    text = (
        f"rank {rank} of the migrated program calls collectives in another order than rank 0 (number {mismatch.place}: "
        f"{texts[0]}, not {texts[1]}): Horovod pairs them by name, torch.distributed by order"
    )
    return Reason("order-of-collectives", text, "HVD301")


def other_output(evidence: Evidence) -> Reason | None:
    """Printed numbers that differ though training does not."""
    found, size = evidence.of("output"), evidence.size
    if found is None or evidence.first is not None or evidence.of("collective"):
        return None
    if "nothing" in (found.original, found.migrated):
        text = f"training is the same, what rank {found.rank} prints is not: " + (
            "it prints more, as where a guard of rank 0 is missing" if found.original == "nothing" else "it prints less"
        )
        return Reason("other-lines", text)
    times = found.distance.ratio if found.distance else None
    if size > 1 and is_near(times, size):
        text = f"training is the same, what is printed is {size} times the original's: a sum that is not divided"
        return Reason("metric-sum", text, "HVD301")
    if size > 1 and is_near(times, 1 / size):
        text = (
            f"training is the same, what is printed is the original's divided by {size}: a mean where there was a sum"
        )
        return Reason("metric-mean", text, "HVD301")
    text = (
        "training is the same, what is printed is not: a metric is computed or reduced otherwise, or by one rank only"
    )
    return Reason("other-metric", text, "HVD301")


def other_keys(evidence: Evidence) -> Reason | None:
    """Keys of a checkpoint that changed."""
    found = evidence.of("checkpoint-keys")
    if found is None:
        return None
    if "module." in found.migrated and found.migrated.replace("module.", "", 1) == found.original:
        text = (
            "keys of the checkpoint have 'module.' before them: it is saved from the DDP wrapper, not from its module"
        )
        return Reason("module-prefix", text, "HVD203")
    return Reason("other-keys", "the checkpoint holds other entries than the original's", "HVD203")


def other_buffers(evidence: Evidence) -> Reason | None:
    """Buffers that differ though training does not."""
    found = evidence.of("buffer")
    if evidence.first is not None or found is None:
        return None
    if found.distance and found.distance.is_rounding and (reason := of_surroundings(evidence)):
        return reason
    text = (
        "weights are the same, buffers of rank 0 are not: forward passes that move the statistics of BatchNorm differ"
    )
    return Reason("other-buffers", text, "HVD203")


def other_file(evidence: Evidence) -> Reason | None:
    """Files that differ though training does not."""
    if evidence.first is not None or not evidence.of("checkpoint-values") or evidence.of("buffer"):
        return None
    text = "training is the same, what is saved is not: it is saved at another moment, or holds something else"
    return Reason("other-file", text, "HVD203")


def other_saves(evidence: Evidence) -> Reason | None:
    """Files that are saved by other ranks, or more or less often."""
    found = evidence.of("checkpoints")
    if found is None:
        return None
    files = f"{found.migrated} file{'s' * (found.migrated != '1')}"
    text = f"rank {found.rank} saves {files}, in the original {found.original}"
    is_unguarded = found.rank and found.original == "0"
    also = ": a guard of rank 0 is missing, and ranks may write one file at the same time" if is_unguarded else ""
    return Reason("other-saves", text + also)
