"""Two traces compared: verdicts, kinds of difference, and the reasons that the traces give."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from parity_traces import (
    BROADCAST,
    METRIC,
    NAMES,
    START,
    Training,
    Values,
    clipped,
    cut,
    float32,
    local,
    mean,
    perturbed,
    reduced,
    save,
    side,
    tensor,
    total,
    trace,
    with_end,
    with_rank,
    with_steps,
)

from migrator.parity.compare import Side, compare
from migrator.parity.comparison import Comparison, Difference, Failure, Kind
from migrator.parity.printed import mismatches
from migrator.parity.progress import steps_per_second
from migrator.parity.trace import Collective, Optimizer, Parameter, Step, Trace, read_trace

ORIGINAL = side()
OBJECT = Collective("object", "", "", 0, "value", True)
BARRIER = Collective("barrier", "", "", 0, "value", True)


def kinds(comparison: Comparison) -> list[Kind]:
    return [each.kind for each in comparison.differences]


def names(comparison: Comparison) -> list[str]:
    return [reason.name for reason in comparison.reasons]


def first(comparison: Comparison) -> Difference:
    assert comparison.first is not None
    return comparison.first


def different(migrated: Side, original: Side = ORIGINAL) -> Comparison:
    found = compare(original, migrated)
    assert found.verdict == "different"
    return found


def unreduced(*left_out: str) -> Callable[[list[Values], int, str], Values]:
    return lambda ranks, rank, name: (local if name in left_out else mean)(ranks, rank, name)


def rounded(ranks: list[Values], rank: int, name: str) -> Values:
    values = mean(ranks, rank, name)
    return [float32(values[0] * (1 + 2**-22)), *values[1:]]


def halved_at_first(ranks: list[Values], rank: int, name: str) -> Values:
    values = mean(ranks, rank, name)
    return [0.5 * values[0], *values[1:]]


def printed(*lines: str, of: Side = ORIGINAL) -> Side:
    return replace(of, output=(lines, ()))


# Verdicts


def test_equal() -> None:
    found = compare(ORIGINAL, side())
    assert found.verdict == "equal"
    assert found.sentence == "Equal: losses, gradients and parameters have the same bits in 6 steps on 2 ranks."
    assert (found.differences, found.reasons, found.parameters, found.notes) == ((), (), (), ())
    assert not found.wants_noise
    assert {each.parameter for each in found.steps} == {each.loss for each in found.steps} == {0.0}


def test_different_names_step_parameter_and_distance() -> None:
    late = trace(reduce=lambda ranks, rank, name: mean(ranks, rank, name))
    other = with_steps(late, lambda rank, step: step if step.number < 3 else changed_gradient(step, 1))
    found = different(Side(other))
    assert (first(found).kind, first(found).step, first(found).rank, first(found).name) == ("gradient", 3, 0, "fc.bias")
    assert first(found).distance is not None
    assert found.sentence.startswith("Different: step 3, rank 0: the gradient of fc.bias differs: ")
    assert found.wants_noise


def changed_gradient(step: Step, place: int) -> Step:
    gradients = list(step.gradients)
    old = gradients[place]
    assert old is not None
    gradients[place] = tensor([2 * value for value in old.sample])
    return replace(step, gradients=tuple(gradients))


@pytest.mark.parametrize("who", ["original", "migrated"])
def test_could_not_run(who: str) -> None:
    failure = Failure(1, "ValueError: no", "Traceback (most recent call last):\nValueError: no")
    failed = replace(side(steps=2), failure=failure)
    found = compare(failed, side()) if who == "original" else compare(ORIGINAL, failed)
    assert found.verdict == "could-not-run"
    assert found.failures == {who: failure}
    assert found.sentence == f"Could not run: {who}, rank 1: ValueError: no"


def test_an_exception_in_the_trace_is_a_failure() -> None:
    found = compare(ORIGINAL, Side(with_end(trace(steps=4), 1, error="RuntimeError: boom")))
    assert found.verdict == "could-not-run"
    assert found.sentence == "Could not run: migrated, rank 1: RuntimeError: boom"


def test_a_migrated_trace_that_ends_early_is_a_failure() -> None:
    found = compare(ORIGINAL, Side(cut(trace(), 1, 4)))
    assert found.verdict == "could-not-run"
    assert "rank 1: its trace ends after step 4" in found.sentence
    assert found.differences == ()


def test_an_original_trace_that_ends_early_is_compared_up_to_there() -> None:
    original = Side(cut(cut(trace(), 0, 4), 1, 3))
    found = compare(original, side())
    assert found.verdict == "equal"
    assert found.notes[:2] == (
        "the original trace of rank 0 was cut off after step 4",
        "the original trace of rank 1 was cut off after step 3",
    )
    assert "reduction" not in kinds(compare(original, side(reduce=total)))
    assert first(different(side(reduce=total), original)).step == 1


def test_a_rank_without_a_trace_is_a_failure() -> None:
    found = compare(ORIGINAL, Side(Trace(trace().ranks[:1])))
    assert found.sentence == "Could not run: migrated, rank 1: it left no trace"
    assert compare(ORIGINAL, Side(Trace(()))).sentence == "Could not run: migrated: no rank left a trace"


def test_nothing_to_compare_is_not_equal() -> None:
    bare = Side(Trace(tuple(replace(r, optimizers=(), steps=(), saves=(), end=None) for r in trace().ranks)))
    assert compare(bare, bare).verdict == "could-not-run"
    spoken = replace(bare, output=(("answer 42",), ()))
    assert compare(spoken, spoken).verdict == "equal"
    assert compare(spoken, replace(bare, output=(("answer 43",), ()))).verdict == "different"


# Noise


def noisy(seed: int, size: float = 1e-6, **changes: object) -> Side:
    change = perturbed(size, seed)
    return side(after=change, **changes)


def test_within_measured_noise() -> None:
    original, again, migrated = noisy(1), noisy(2), noisy(3)
    alone = compare(original, migrated)
    assert alone.verdict == "different"
    assert alone.wants_noise
    found = compare(original, migrated, again)
    assert found.verdict == "within-noise"
    assert all(each.is_noise for each in found.differences)
    assert not found.wants_noise
    assert names(found)[-1] == "not-deterministic"
    assert found.sentence.endswith("differ by among themselves.")
    assert found.noise is not None
    assert 0 < found.noise.measured["gradient"] < 1e-4
    assert any(each.noise for each in found.steps)


def test_a_mistake_is_not_noise() -> None:
    found = compare(noisy(1), noisy(3, reduce=total), noisy(2))
    assert found.verdict == "different"
    assert {"sum-for-mean", "not-deterministic"} <= set(names(found))
    assert not first(found).is_noise


def test_a_repetition_with_the_same_bits_has_no_noise() -> None:
    found = compare(ORIGINAL, noisy(1, 1e-7), side())
    assert found.verdict == "different"
    assert found.noise is not None
    assert found.noise.measured == {}


def test_noise_counts_from_the_step_where_it_begins() -> None:
    def late(seed: int, start: int) -> Trace:
        shaken = iter(range(1000))
        change = perturbed(1e-6, seed)
        return trace(after=lambda gradients: change(gradients) if next(shaken) >= 2 * (start - 1) else gradients)

    original, again = ORIGINAL, Side(late(1, 4))
    assert compare(original, Side(late(2, 4)), again).verdict == "within-noise"
    assert compare(original, Side(late(2, 2)), again).verdict == "different"


def test_given_noise() -> None:
    assert compare(ORIGINAL, noisy(1, 1e-6), noise=1e-3).verdict == "within-noise"
    assert compare(ORIGINAL, noisy(1, 1e-6), noise=1e-9).verdict == "different"
    assert compare(ORIGINAL, side(reduce=total), noise=1e-3).verdict == "different"
    found = compare(ORIGINAL, noisy(1, 1e-6), noise=1e-3)
    assert found.sentence == "Within noise: no distance is larger than the given 0.001."


def test_data_that_the_original_shuffles_anew_is_noise() -> None:
    def shuffled(seed: int) -> Side:
        return side(batch=lambda rank, step: 1000 * seed + 10 * step + rank)

    found = compare(shuffled(1), shuffled(2), shuffled(3))
    assert found.verdict == "within-noise"
    assert "a mistake of that size would not show, so make the program repeatable." in found.sentence
    assert names(found) == ["not-deterministic"]
    assert compare(shuffled(1), shuffled(2), shuffled(1)).verdict == "different"


def test_a_repetition_that_failed_is_said_to_have() -> None:
    again = replace(side(), failure=Failure(0, "gone"))
    found = compare(ORIGINAL, noisy(1), again)
    assert found.verdict == "different"
    assert "the original failed when it was run again: its noise is not known" in found.notes


# Mistakes


@pytest.mark.parametrize(
    ("original", "migrated", "kind", "reason", "rule"),
    [
        (Training(), {"reduce": total}, "gradient", "sum-for-mean", "HVD201"),
        (Training(size=3), {"reduce": total}, "gradient", "sum-for-mean", "HVD201"),
        (Training(), {"scale": 0.5}, "loss", "divided", "HVD201"),
        (Training(backwards=2), {"scale": 0.5}, "loss", "divided", "HVD201"),
        (Training(size=3, backwards=2), {"scale": 0.5}, "loss", "divided", "HVD201"),
        (Training(), {"scale": 3.0}, "loss", "scaled", "HVD201"),
        (Training(), {"reduce": local}, "gradient", "not-reduced", "HVD201"),
        (Training(), {"reduce": unreduced("fc.bias")}, "gradient", "not-reduced", "HVD201"),
        (
            Training(after=clipped(1.0)),
            {"before": clipped(1.0), "after": lambda g: g},
            "gradient",
            "clipped-too-early",
            "",
        ),
        (Training(after=clipped(1.0)), {"after": lambda g: g}, "gradient", "not-clipped", "HVD202"),
        (Training(), {"after": clipped(0.5)}, "gradient", "clipped-otherwise", "HVD202"),
        (
            Training(after=clipped(1.0)),
            {"after": clipped(0.5)},
            "gradient",
            "clipped-otherwise",
            "HVD202",
        ),
        (Training(), {"reduce": halved_at_first}, "gradient", "other-gradients", "HVD201"),
        (
            Training(),
            {"reduce": rounded, "sent": (reduced(dtype="float16"),)},
            "gradient",
            "half-precision",
            "HVD201",
        ),
        (Training(momentum=0.9), {"momentum": 0.8}, "parameter", "other-update", "HVD205"),
        (Training(), {"rates": lambda rank, step: 0.1 / step}, "rate", "other-schedule", ""),
        (Training(), {"rates": lambda rank, step: 0.2}, "rate", "rate-scaled", "HVD103"),
        (Training(), {"rates": lambda rank, step: 0.05}, "rate", "rate-scaled", "HVD103"),
        (Training(), {"rates": lambda rank, step: 0.3}, "rate", "other-rate", ""),
        (
            Training(rates=lambda rank, step: 1 / step),
            {"rates": lambda rank, step: 1 / max(1, step - 1)},
            "rate",
            "rate-shifted",
            "",
        ),
        (
            Training(),
            {"start": lambda rank: ([0.5 + rank, 0.0, 0.0, 0.0], [0.0, 0.0])},
            "weights",
            "not-broadcast",
            "HVD204",
        ),
        (Training(), {"start": lambda rank: ([0.75, *START[0][1:]], START[1])}, "weights", "other-start", ""),
        (Training(), {"batch": lambda rank, step: 10 * ((step - 1) % 3 + 1) + rank}, "batch", "no-set-epoch", "HVD401"),
        (
            Training(batch=lambda rank, step: 10 * ((step - 1) % 3 + 1) + rank),
            {"batch": lambda rank, step: 10 * step + rank},
            "batch",
            "original-repeats",
            "HVD401",
        ),
        (Training(), {"batch": lambda rank, step: 10 * step}, "batch", "not-sharded", "HVD103"),
        (Training(), {"batch": lambda rank, step: 10 * step + 1 - rank}, "batch", "other-shard", "HVD103"),
        (Training(), {"batch": lambda rank, step: 10 * (7 - step) + rank}, "batch", "other-order", ""),
        (Training(), {"batch": lambda rank, step: 500 + 10 * step + rank}, "batch", "other-batches", ""),
        (
            Training(),
            {"batch": lambda rank, step: 500 + step + 20 * rank, "states": {"torch": "cc", "python": "bb"}},
            "batch",
            "other-random-state",
            "",
        ),
        (
            Training(momentum=0.9),
            {"momentum": 0.9, "velocity": ([0.5] * 4, [0.5] * 2)},
            "parameter",
            "lost-state",
            "HVD205",
        ),
        (
            Training(velocity=([0.5] * 4, [0.5] * 2), momentum=0.9),
            {"velocity": ([0.0] * 4, [0.0] * 2)},
            "parameter",
            "fresh-state",
            "",
        ),
    ],
)
def test_reason(original: Training, migrated: dict[str, object], kind: Kind, reason: str, rule: str) -> None:
    found = different(side(original, **migrated), side(original))
    assert first(found).kind == kind
    assert names(found)[0] == reason
    assert rule in found.reasons[0].rule
    assert found.reasons[0].is_expected == (reason == "lost-state")


def test_gradients_that_are_scaled_are_named_if_they_are_not_all() -> None:
    found = different(side(reduce=lambda ranks, rank, name: (total if name == "fc.bias" else mean)(ranks, rank, name)))
    assert found.reasons[0].sentence.startswith("some gradients (fc.bias) are 2 times the original's")


def test_a_mistake_shows_behind_a_difference_that_is_expected() -> None:
    original = Training(zero_step=True, decay_at_zero_step=1e-5)
    found = different(side(reduce=total), side(original))
    assert names(found)[:2] == ["initial-step", "sum-for-mean"]
    assert names(different(side(), side(original))) == ["initial-step"]


def test_reasons_come_in_the_order_in_which_they_are_looked_for() -> None:
    found = different(side(steps=12, batch=lambda rank, step: 10 * step))
    assert names(found)[0] == "not-sharded"


def test_a_run_that_failed_is_not_told_what_it_left_out() -> None:
    failed = Side(with_end(with_end(trace(steps=2), 0, error="TypeError: no"), 1, error="TypeError: no"))
    found = compare(ORIGINAL, failed)
    assert found.verdict == "could-not-run"
    assert found.reasons == ()


def test_a_rank_that_lost_another_left_out_what_that_waits_for() -> None:
    lost = Side(with_end(cut(trace(steps=4, metrics=()), 0, 3), 1, error="RuntimeError: Connection closed by peer"))
    found = compare(ORIGINAL, lost)
    assert found.reasons[0].sentence == (
        "rank 1 leaves out the original's allreduce (average) of 1 float32; the others wait for it, or take it for "
        "their next"
    )


def test_files_that_another_rank_saves() -> None:
    found = different(Side(with_rank(trace(), 1, saves=(save(),))))
    assert names(found) == ["other-saves"]
    assert found.reasons[0].sentence.startswith("rank 1 saves 1 file, in the original 0: a guard of rank 0 is missing")


def test_lines_that_only_one_side_prints() -> None:
    found = different(replace(ORIGINAL, output=(("loss 1",), ("loss 1",))), printed("loss 1"))
    assert names(found) == ["other-lines"]
    assert "rank 1 prints" in found.reasons[0].sentence
    assert "it prints more" in found.reasons[0].sentence


def test_sums_are_told_by_their_ratio() -> None:
    found = different(side(size=3, reduce=total), side(size=3))
    assert found.reasons[0].sentence == (
        "all gradients are 3 times the original's: over the 3 ranks they are added up where the original takes the mean"
    )


def test_a_layer_that_is_left_out_is_named() -> None:
    found = different(side(reduce=unreduced("fc.bias"), sent=(reduced(elements=4),)))
    assert kinds(found)[:2] == ["reduction", "gradient"]
    assert "does not reduce the gradients of fc.bias: from step 1 on each rank applies its own, of which" in (
        found.reasons[0].sentence
    )
    assert found.parameters[0].name == "fc.bias"
    assert [(drift.side, drift.step, drift.parameter) for drift in found.drifts] == [("migrated", 1, "fc.bias")]


def test_division_by_accumulation_is_named() -> None:
    found = different(side(size=3, backwards=2, scale=0.5), side(size=3, backwards=2))
    assert "divided by the 2 backward passes, which Horovod does not do; so is the loss" in found.reasons[0].sentence
    found = different(side(backwards=2), side())
    assert "backwards" in kinds(found)


def test_reductions_that_are_missing_show_even_if_data_is_the_same() -> None:
    same = Training(batch=lambda rank, step: step)
    found = different(side(same, reduce=local, sent=()), side(same))
    assert kinds(found) == ["reduction"]
    assert names(found) == ["never-reduced"]
    assert not found.wants_noise
    found = different(side(same, reduce=unreduced("fc.bias"), sent=(reduced(elements=4),)), side(same))
    assert found.reasons[0].sentence.startswith("the migrated program reduces gradients of 4 elements, the original 6")


def test_a_broadcast_that_is_missing_shows_even_if_weights_are_the_same() -> None:
    found = different(side(at_start=()))
    assert kinds(found) == ["broadcast"]
    assert names(found) == ["never-broadcast"]
    fresh_state = replace(BROADCAST, elements=0)
    assert compare(side(at_start=(fresh_state,)), side(at_start=())).verdict == "equal"


@pytest.mark.parametrize(
    "sent",
    [(reduced(), reduced()), (reduced(elements=12),), (reduced(elements=7),), (reduced(reduction="sum"),)],
)
def test_how_gradients_are_reduced_is_no_difference(sent: tuple[Collective, ...]) -> None:
    assert compare(ORIGINAL, side(sent=sent)).verdict == "equal"
    assert compare(side(sent=sent), ORIGINAL).verdict == "equal"


def test_a_missing_gradient_where_horovod_gave_zeros() -> None:
    def only_weight(zeros: bool) -> Callable[[list[Values], int, str], Values | None]:
        return lambda ranks, rank, name: (
            mean(ranks, rank, name) if name == "fc.weight" else ([0.0, 0.0] if zeros else None)
        )

    pushed = Training(momentum=0.9, velocity=([0.0] * 4, [0.5, 0.5]))
    found = different(side(pushed, reduce=only_weight(False)), side(pushed, reduce=only_weight(True)))
    assert names(found) == ["missing-gradient"]
    assert "fc.bias has no gradient in step 1" in found.reasons[0].sentence
    assert not found.reasons[0].is_expected
    # Without momentum it makes no difference.
    assert compare(side(reduce=only_weight(True)), side(reduce=only_weight(False))).verdict == "equal"


# What a right migration changes too


def test_weight_decay_in_the_initial_step() -> None:
    found = different(side(), side(zero_step=True, decay_at_zero_step=0.01))
    assert first(found).kind == "weights"
    assert names(found) == ["initial-step"]
    assert found.reasons[0].is_expected
    assert found.reasons[0].rule == "HVD205"
    assert first(found).step == 0


def test_weight_decay_in_the_initial_step_of_weights_that_are_broadcast_later() -> None:
    own = side(
        zero_step=True,
        decay_at_zero_step=0.01,
        start=lambda rank: ([0.5 + rank] * 4, START[1]),
        broadcast_after_zero_step=True,
    )
    for start, name in [(0.5, "initial-step"), (0.75, "other-start")]:
        migrated = side(start=lambda rank, start=start: ([start] * 4, START[1]))
        assert names(different(migrated, own)) == [name]


def test_an_initial_step_that_leaves_nothing_is_no_difference() -> None:
    found = compare(side(zero_step=True), side())
    assert found.verdict == "equal"
    assert found.extent.steps == 6


def test_an_initial_step_that_leaves_a_state() -> None:
    found = different(
        side(optimizer="Adam"), side(optimizer="Adam", zero_step=True, momentum=0.5, velocity=([0.1] * 4, [0.0] * 2))
    )
    assert first(found).kind == "parameter"
    assert names(found) == ["initial-state"]


def test_an_optimizer_that_never_trains_is_none() -> None:
    original = trace(zero_step=True)
    for rank in original.ranks:
        idle = replace(rank.optimizers[0], number=7, parameters=(), start=())
        steps = (*rank.steps, replace(rank.steps[0], optimizer=7))
        original = with_rank(original, rank.rank, optimizers=(idle, *rank.optimizers), steps=steps)
    assert compare(Side(original), side()).verdict == "equal"
    assert compare(side(), Side(original)).verdict == "equal"


def with_preconditioner(of: Side) -> Side:
    """A side with an optimizer of the same parameters that steps first, and has no initial step of its own."""
    trace = of.trace
    for rank in trace.ranks:
        (own,) = rank.optimizers
        others = [replace(step, optimizer=0, parameters=own.start) for step in rank.steps if not step.is_initial][:1]
        optimizers = (replace(own, number=0, type="KFAC"), own)
        trace = with_rank(trace, rank.rank, optimizers=optimizers, steps=(*others, *rank.steps))
    return replace(of, trace=trace)


def test_the_initial_step_of_another_optimizer_of_the_same_parameters() -> None:
    original = side(zero_step=True, decay_at_zero_step=0.01)
    found = different(with_preconditioner(side()), with_preconditioner(original))
    assert (first(found).kind, first(found).optimizer) == ("weights", 1)
    assert names(found) == ["initial-step"]


def test_other_weights_after_an_initial_step_are_not_blamed_on_it() -> None:
    original = trace(zero_step=True)
    for rank in original.ranks:
        own = replace(rank.steps[0], parameters=(tensor([9.0] * 4), tensor([9.0] * 2)))
        original = with_rank(original, rank.rank, steps=(own, *rank.steps[1:]))
    assert compare(Side(original), side()).verdict == "equal"
    found = different(side(start=lambda rank: ([0.75, *START[0][1:]], START[1])), Side(original))
    assert names(found) == ["other-start"]


@pytest.mark.parametrize(
    ("original", "cause", "rule"),
    [
        (Training(reduce=local), "step(closure)", "HVD202"),
        (Training(reduce=unreduced("fc.bias")), "frozen", "HVD201"),
        (Training(rates=lambda rank, step: 0.1 * (rank + 1)), "learning rates differ", "HVD205"),
        (Training(reduce=local, metrics=(METRIC, Collective("join", "", "", 0, "value", True))), "joined", "HVD306"),
        (Training(start=lambda rank: ([float(rank)] * 4, [0.0] * 2)), "without giving all ranks", "HVD204"),
    ],
)
def test_ranks_of_the_original_that_drift_apart(original: Training, cause: str, rule: str) -> None:
    start = original.start(0)
    found = different(side(start=lambda rank: start, metrics=original.metrics), side(original))
    assert names(found)[0] == "original-drifts"
    assert cause in found.reasons[0].sentence
    assert found.reasons[0].rule == rule
    assert found.reasons[0].is_expected
    assert "not-reduced" not in names(found)
    assert "rate-scaled" not in names(found)


def test_ranks_that_drift_apart_on_both_sides_alike() -> None:
    assert compare(side(reduce=local), side(reduce=local)).verdict == "equal"


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (Training(), "rounding"),
        (Training(size=3), "order-of-ranks"),
        (Training(backwards=2), "several-reductions"),
        (Training(sent=(reduced(dtype="torch.float16"),)), "half-precision"),
        (Training(sent=(reduced(elements=5),)), "sparse-order"),
    ],
)
def test_rounding(plan: Training, reason: str) -> None:
    found = different(side(plan, reduce=rounded), side(plan))
    assert names(found) == [reason]
    assert found.reasons[0].is_expected
    assert first(found).distance is not None
    assert first(found).distance.is_rounding  # type: ignore[union-attr]
    assert "after step 1" in found.growth


def test_runs_on_other_versions_need_not_round_alike() -> None:
    other = {**Training().conditions, "torch": "1.13.1"}
    found = different(side(reduce=rounded, conditions=other), side())
    assert names(found) == ["other-arithmetic"]
    assert "differ in torch" in found.reasons[0].sentence
    assert names(different(side(reduce=total, conditions=other), side())) == ["sum-for-mean"]


def test_rounding_is_not_what_a_thousandth_is() -> None:
    found = different(noisy(1, 1e-3))
    assert names(found) == ["other-gradients"]


# Around the training


def test_learning_of_several_differences_in_their_order() -> None:
    found = different(side(reduce=total, metrics=(), rates=lambda rank, step: 0.2))
    assert kinds(found)[:3] == ["gradient", "rate", "parameter"]
    assert {"sum-for-mean", "rate-scaled", "missing-collective"} <= set(names(found))


def test_world_size() -> None:
    found = different(side(size=3))
    assert kinds(found)[0] == "ranks"
    assert not found.wants_noise
    size = found.conditions[0]
    assert (size.name, size.original, size.migrated, size.matters) == ("world size", "2", "3", True)


@pytest.mark.parametrize(("steps", "reason"), [(12, "not-sharded"), (5, "other-steps")])
def test_number_of_steps(steps: int, reason: str) -> None:
    found = different(side(steps=steps))
    assert "steps" in kinds(found)
    assert reason in names(found)


def test_steps_that_were_not_recorded() -> None:
    def sparsely(rank: int, step: Step) -> Step:
        return step if step.number in (1, 4) else replace(step, gradients=(), parameters=())

    thinned = Side(with_steps(trace(), sparsely))
    found = compare(ORIGINAL, thinned)
    assert found.verdict == "equal"
    assert "(recorded in 2 of them)" in found.sentence
    assert found.notes == ("gradients and parameters were recorded in 4 of 12 steps",)
    assert found.steps[1].parameter is None
    other = Side(with_steps(trace(reduce=total), sparsely))
    assert first(different(other, thinned)).step == 1


def test_the_last_step_is_repeated_with_its_parameters() -> None:
    def repeated(whole: Trace) -> Trace:
        for rank in whole.ranks:
            last = rank.steps[-1]
            thin = replace(last, gradients=(), parameters=())
            again = replace(thin, parameters=last.parameters, losses=(), batch="", collectives=(), backwards=0)
            whole = with_rank(whole, rank.rank, steps=(*rank.steps[:-1], thin, again))
        return whole

    found = compare(Side(repeated(trace())), Side(repeated(trace())))
    assert (found.verdict, found.extent.steps) == ("equal", 6)
    assert compare(ORIGINAL, Side(repeated(trace()))).verdict == "equal"
    shifted = with_steps(
        trace(), lambda rank, s: replace(s, parameters=(tensor([1.0] * 4), s.parameters[1])) if s.number == 6 else s
    )
    found = different(Side(repeated(shifted)), Side(repeated(trace())))
    assert (first(found).kind, first(found).step) == ("parameter", 6)


def test_nan_is_nan() -> None:
    lost = side(scale=math.nan)
    assert math.isnan(lost.trace.ranks[0].steps[0].losses[0])
    assert compare(lost, side(scale=math.nan)).verdict == "equal"
    found = different(side(scale=math.nan))
    assert first(found).distance is not None
    assert math.isinf(first(found).distance.relative)  # type: ignore[union-attr]
    other_bits = with_steps(
        lost.trace,
        lambda rank, step: replace(step, parameters=tuple(replace(t, digest="other") for t in step.parameters)),
    )
    assert compare(lost, Side(other_bits)).verdict == "equal"


def test_bits_that_no_sample_shows() -> None:
    hidden = with_steps(
        trace(), lambda rank, s: replace(s, parameters=(replace(s.parameters[0], digest="x"), s.parameters[1]))
    )
    found = different(Side(hidden))
    assert first(found).distance is not None
    assert "bits that neither the norm nor" in first(found).sentence
    assert found.steps[0].parameter == 2.0**-24


def test_a_wrapper_before_names_is_no_difference() -> None:
    wrapped = trace()
    for rank in wrapped.ranks:
        own = rank.optimizers[0]
        parameters = tuple(replace(each, name=f"module.{each.name}") for each in own.parameters)
        wrapped = with_rank(wrapped, rank.rank, optimizers=(replace(own, parameters=parameters),))
    assert compare(ORIGINAL, Side(wrapped)).verdict == "equal"


def test_parameters_in_another_order() -> None:
    turned = with_steps(trace(), lambda rank, s: replace(s, gradients=s.gradients[::-1], parameters=s.parameters[::-1]))
    for rank in turned.ranks:
        own = rank.optimizers[0]
        optimizer = replace(own, parameters=own.parameters[::-1], start=own.start[::-1])
        turned = with_rank(turned, rank.rank, optimizers=(optimizer,))
    assert compare(ORIGINAL, Side(turned)).verdict == "equal"


def test_another_optimizer() -> None:
    found = different(side(optimizer="Adam"))
    assert kinds(found) == ["optimizer"]
    assert first(found).original == "SGD of 2 parameters"
    lost = trace()
    for rank in lost.ranks:
        lost = with_rank(lost, rank.rank, optimizers=())
    assert "optimizer" in kinds(different(Side(lost)))


def test_optimizers_that_never_train_are_the_same() -> None:
    idle = Optimizer(1, "SGD", (), ())
    resting = Side(Trace(tuple(replace(rank, optimizers=(idle,), steps=()) for rank in trace().ranks)))
    assert compare(resting, resting).verdict == "equal"


def test_two_optimizers_are_paired_by_what_they_hold() -> None:
    def two(whole: Trace, numbers: tuple[int, int]) -> Trace:
        small = Parameter("g", (1,), "float32")
        for rank in whole.ranks:
            own = replace(rank.optimizers[0], number=numbers[0])
            other = Optimizer(numbers[1], "SGD", (small,), (tensor([1.0]),))
            steps = [replace(step, optimizer=numbers[0], number=2 * step.number) for step in rank.steps]
            more = [
                replace(
                    step,
                    optimizer=numbers[1],
                    number=step.number + 1,
                    gradients=(tensor([1.0]),),
                    parameters=(tensor([2.0]),),
                )
                for step in steps
            ]
            mixed = tuple(sorted((*steps, *more), key=lambda step: step.number))
            both = tuple(sorted((own, other), key=lambda each: each.number))
            whole = with_rank(whole, rank.rank, optimizers=both, steps=mixed)
        return whole

    assert compare(Side(two(trace(), (1, 2))), Side(two(trace(), (2, 1)))).verdict == "equal"
    found = different(Side(two(trace(reduce=total), (2, 1))), Side(two(trace(), (1, 2))))
    assert first(found).name == "fc.weight"
    assert found.extent.steps == 12


def test_buffers_count_on_rank_0_only() -> None:
    moved = {"module.bn.running_mean": tensor([0.5, 0.5])}
    found = compare(ORIGINAL, Side(with_end(trace(), 1, buffers=moved)))
    assert found.verdict == "equal"
    assert found.notes[0].startswith("buffers differ on rank 1, which counts as no difference")
    found = different(Side(with_end(trace(), 0, buffers=moved)))
    assert kinds(found) == ["buffer"]
    assert names(found) == ["other-buffers"]


def test_checkpoints() -> None:
    prefixed = save(keys="other", sample=tuple(f"module.{name}" for name in NAMES))
    found = different(Side(with_rank(trace(), 0, saves=(prefixed,))))
    assert kinds(found) == ["checkpoint-keys"]
    assert first(found).sentence == ("rank 0: the checkpoint's keys differ (model.pt): fc.weight / module.fc.weight")
    assert names(found) == ["module-prefix"]
    assert not found.wants_noise
    found = different(Side(with_rank(trace(), 0, saves=(save(values="w"),))))
    assert (kinds(found), names(found)) == (["checkpoint-values"], ["other-file"])
    found = different(Side(with_rank(trace(), 0, saves=())))
    assert kinds(found) == ["checkpoints"]
    fewer = replace(save(keys="other"), tensors=1, sample=NAMES[:1])
    found = different(Side(with_rank(trace(), 0, saves=(fewer,))))
    assert first(found).migrated == "1 tensors"
    assert names(found) == ["other-keys"]


@pytest.mark.parametrize(
    ("migrated", "reason", "text"),
    [
        ((replace(METRIC, reduction="sum"),), "other-reduction", "reduces a value by sum, the original by average"),
        ((replace(METRIC, reduction="max", is_exact=False),), "other-reduction", "by max"),
        ((), "missing-collective", "leaves out the original's allreduce (average) of 1 float32"),
        ((METRIC, METRIC), "extra-collective", "adds a collective"),
        ((replace(METRIC, kind="broadcast", reduction=""),), "other-collective", "calls broadcast of 1 float32"),
        ((replace(METRIC, dtype="float64"),), "other-collective", "float64"),
        ((OBJECT,), "other-collective", "calls exchange of objects where"),
    ],
)
def test_other_collectives(migrated: tuple[Collective, ...], reason: str, text: str) -> None:
    found = different(side(metrics=migrated))
    assert kinds(found) == ["collective"]
    assert names(found) == [reason]
    assert text in found.reasons[0].sentence
    assert not found.wants_noise


@pytest.mark.parametrize(
    ("original", "migrated"),
    [
        ((METRIC,), (replace(METRIC, reduction="sum", is_exact=False),)),
        ((METRIC,), (BARRIER,)),
        ((METRIC, BARRIER), (METRIC,)),
        ((METRIC,), (BARRIER, METRIC)),
        ((OBJECT,), (replace(OBJECT, elements=7, dtype="uint8"),)),
    ],
)
def test_the_same_collectives_in_other_words(
    original: tuple[Collective, ...], migrated: tuple[Collective, ...]
) -> None:
    assert compare(side(metrics=original), side(metrics=migrated)).verdict == "equal"


def test_a_collective_that_one_rank_leaves_out() -> None:
    left_out = with_steps(
        trace(), lambda rank, s: replace(s, collectives=tuple(c for c in s.collectives if rank == 0 or c != METRIC))
    )
    found = different(Side(left_out))
    assert first(found).rank == 1
    assert first(found).step == 4
    assert found.reasons[0].sentence == (
        "rank 1 alone leaves out the original's allreduce (average) of 1 float32; the others wait for it, or take it "
        "for their next"
    )


def test_collectives_in_another_order_on_one_rank() -> None:
    pair = (METRIC, replace(METRIC, elements=5))
    mixed = with_end(trace(metrics=pair), 1, collectives=pair[::-1])
    found = different(Side(mixed), side(metrics=pair))
    assert "order-of-collectives" in names(found)
    assert "rank 1 of the migrated program calls collectives in another order than rank 0" in (
        found.reasons[-1].sentence
    )


def test_a_cut_trace_says_nothing_of_collectives_to_come() -> None:
    assert compare(Side(cut(trace(), 0, 3)), side()).verdict == "equal"


# Conditions


def test_conditions() -> None:
    other = {"torch": "2.12.0", "threads": "1", "seed": "1", "horovod": "0.28.1", "RANK": "0"}
    found = compare(side(conditions=other), side())
    assert found.verdict == "equal"
    by_name = {each.name: each for each in found.conditions}
    assert by_name["torch"].matters
    assert by_name["seed"].matters
    assert not by_name["horovod"].matters
    assert by_name["horovod"].remark == "differs of course"
    assert not by_name["RANK"].matters
    assert by_name["threads"].is_same
    assert by_name["arguments"].original == "--epochs 2"
    assert by_name["data order"].is_same
    assert not found.conditions[0].is_same
    assert found.conditions[0].matters
    assert found.conditions[-1].is_same


def test_conditions_of_single_ranks() -> None:
    uneven = with_rank(trace(), 1, conditions={"torch": "2.13.0", "threads": "8", "seed": "0", "horovod": "-"})
    threads = next(each for each in compare(ORIGINAL, Side(uneven)).conditions if each.name == "threads")
    assert (threads.original, threads.migrated) == ("1", "rank 0: 1, rank 1: 8")


def test_data_order_is_a_condition() -> None:
    found = compare(ORIGINAL, side(batch=lambda rank, step: 10 * step + rank + (100 if step > 2 else 0)))
    order = next(each for each in found.conditions if each.name == "data order")
    assert order.migrated == "8 others, the first in step 3 of rank 0"


def test_batches_that_were_not_recorded() -> None:
    blind = Side(with_steps(trace(), lambda rank, step: replace(step, batch="")))
    found = compare(ORIGINAL, blind)
    assert found.verdict == "equal"
    assert "no batches were recorded: the order of the data was not compared" in found.notes


# What is printed


@pytest.mark.parametrize(
    ("original", "migrated"),
    [
        ("epoch 1 loss 0.5", "epoch 1 loss 0.5"),
        ("loss 0.50", "loss 0.5"),
        ("loss nan", "loss NaN"),
        ("took 1.5s", "took 2.5s"),
        ("12.1 samples/s", "13.7 samples/s"),
        ("speed: 120.5", "speed: 90.1"),
        ("120 img/sec per rank", "99 img/sec per rank"),
        ("Img/sec per CPU: 1.2 +-0.0", "Img/sec per CPU: 1.1 +-0.1"),
        ("Total img/sec on 2 CPU(s): 2.4 +-0.1", "Total img/sec on 2 CPU(s): 2.1 +-0.3"),
        ("2026-11-30 12:00:01,123 start", "2026-11-30 12:05:59,321 start"),
        ("[00:01<00:02] x", "[00:03<00:09] x"),
        ("saved /tmp/a1/model_3.pt", "saved /tmp/b2/model_4.pt"),
        ("<Model at 0x7f0011>", "<Model at 0x7f9922>"),
        ("torch 2.13.0+cpu", "torch 2.12.1"),
        ("127.0.0.1:4000 up", "127.0.0.1:5000 up"),
        (" 45%|#### | 45/100 [00:01<00:02, 30.1it/s]", " 45%|#### | 45/100 [00:02<00:03, 21.9it/s]"),
        ("elapsed time: 12.5", "elapsed time: 13.5"),
        ("no numbers", "none at all"),
    ],
)
def test_lines_that_print_the_same(original: str, migrated: str) -> None:
    assert list(mismatches([original], [migrated])) == []


@pytest.mark.parametrize(
    ("original", "migrated"),
    [
        ("epoch 1 loss 0.5", "epoch 1 loss 0.51"),
        ("loss 0.5", "loss nan"),
        ("accuracy 91.5%", "accuracy 90.5%"),
        ("loss: 1e-3", "loss: 1e-4"),
        ("time 3s, accuracy 0.5", "time 4s, accuracy 0.6"),
        ("img/sec: 1.2, loss 0.5", "img/sec: 1.1, loss 0.6"),
        ("loss 0.5", "nothing to say"),
        ("hello", "loss 0.5"),
    ],
)
def test_lines_that_print_something_else(original: str, migrated: str) -> None:
    assert len(list(mismatches([original], [migrated]))) == 1


def test_lines_are_paired_by_how_they_read() -> None:
    lines = ["start 1", "loss 0.5", "loss 0.25"]
    assert list(mismatches(lines, ["start 1", "warning", "loss 0.5", "loss 0.25"])) == []
    (found,) = mismatches(lines, ["start 1", "loss 0.5", "loss 0.26"])
    assert found.numbers == ("0.25", "0.26")


def test_the_log_of_deepspeed_does_not_count() -> None:
    log = "[2026-12-01 01:25:17,782] [INFO] [logging.py:129:log_dist] [Rank 0] DeepSpeed info: version=0.19.8"
    assert list(mismatches(["loss 0.5"], [log, "loss 0.5"])) == []
    assert len(list(mismatches(["loss 0.5"], ["[2026-12-01] step 3", "loss 0.5"]))) == 1


def test_numbers_that_vary_between_runs_of_the_original_do_not_count() -> None:
    lines, again = ["gap 0.5 loss 1.5"], ["gap 0.6 loss 1.5"]
    assert list(mismatches(lines, ["gap 0.9 loss 1.5"], again)) == []
    assert len(list(mismatches(lines, ["gap 0.9 loss 1.6"], again))) == 1


def test_long_outputs_are_compared_line_by_line() -> None:
    lines = [f"loss {number}.5" for number in range(3000)]
    assert list(mismatches(lines, lines)) == []
    assert len(list(mismatches(lines, [*lines[:-1], "loss 7"]))) == 1
    assert len(list(mismatches(lines, lines[:-1]))) == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [("loss 3.0", "metric-sum"), ("loss 0.75", "metric-mean"), ("loss 1.6", "other-metric")],
)
def test_printed_numbers(line: str, reason: str) -> None:
    found = different(printed(line), printed("loss 1.5"))
    assert kinds(found) == ["output"]
    assert names(found) == [reason]
    assert found.wants_noise
    assert first(found).sentence == f"rank 0: another line is printed: loss 1.5 / {line}"
    assert compare(printed("loss 1.5"), printed(line), printed("loss 1.7")).verdict == "equal"
    assert compare(printed("loss 1.5"), printed(line), printed("loss 1.5")).verdict == "different"


def test_printed_numbers_within_noise() -> None:
    assert compare(printed("loss 1.5"), printed("loss 1.5001"), noise=1e-3).verdict == "within-noise"
    assert compare(printed("loss 1.5"), printed("loss 1.6"), noise=1e-3).verdict == "different"


# Traces in folders


def test_traces_in_folders(tmp_path: Path) -> None:
    for name, gradient in (("a", 1.5), ("b", 3.0)):
        write(tmp_path / name, gradient)
    assert compare(Side(read_trace(tmp_path / "a")), Side(read_trace(tmp_path / "a"))).verdict == "equal"
    found = different(Side(read_trace(tmp_path / "b")), Side(read_trace(tmp_path / "a")))
    assert names(found) == ["sum-for-mean"]
    rank = tmp_path / "b" / "rank1.jsonl"
    rank.write_bytes(rank.read_bytes()[:-40])
    found = different(Side(read_trace(tmp_path / "b")), Side(read_trace(tmp_path / "a")))
    assert found.notes[0] == "the migrated trace of rank 1 was cut off after step 1"


def write(folder: Path, gradient: float) -> None:
    folder.mkdir()
    start = 1.0

    def entry(value: float) -> list[object]:
        return [f"{value:.6f}", abs(value), value]

    for rank in range(2):
        events: list[dict[str, object]] = [
            {
                "event": "start",
                "format": 1,
                "rank": rank,
                "size": 2,
                "program": "t.py",
                "arguments": [],
                "conditions": {},
            },
            {
                "event": "optimizer",
                "number": 1,
                "type": "SGD",
                "parameters": [["w", [1], "float32"]],
                "start": [entry(start)],
            },
            {
                "event": "step",
                "number": 1,
                "optimizer": 1,
                "initial": False,
                "losses": [2.0],
                "rates": [0.1],
                "batch": f"b{rank}",
                "gradients": [entry(gradient)],
                "parameters": [entry(start - 0.1 * gradient)],
                "collectives": [["allreduce", "average", "float32", 1, "gradients", True]],
                "backwards": 1,
                "seconds": 0.1,
            },
            {
                "event": "end",
                "error": "",
                "seconds": 1.0,
                "buffers": {},
                "collectives": [],
                "lines": {},
                "horovod": False,
            },
        ]
        (folder / f"rank{rank}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def test_steps_per_second() -> None:
    assert steps_per_second(trace()) == pytest.approx(100.0)
    assert steps_per_second(trace(steps=1)) is None
    assert steps_per_second(Trace(())) is None


def test_every_rule_that_a_reason_names_has_a_page() -> None:
    folder = Path(__file__).parents[1]
    text = "".join(path.read_text("utf-8") for path in (folder / "migrator/parity/reasons").glob("*.py"))
    named = set(re.findall(r"HVD\d+", text))
    assert "HVD205" in named
    assert named <= {path.stem for path in (folder / "docs/rules").glob("HVD*.md")}
