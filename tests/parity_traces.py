"""Traces of a tiny training, computed here in plain Python: what a recorder would have written of it."""

from __future__ import annotations

import hashlib
import math
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from migrator.parity.compare import Side
from migrator.parity.trace import Collective, End, Optimizer, Parameter, Rank, Save, Step, Tensor, Trace

Values = list[float]
NAMES = ("fc.weight", "fc.bias")
SHAPES = ((2, 2), (2,))
START: tuple[Values, ...] = ([0.5, -0.25, 0.125, 1.0], [0.375, -0.75])
ELEMENTS = 6
METRIC = Collective("allreduce", "average", "float32", 1, "value", True)
BROADCAST = Collective("broadcast", "", "float32", ELEMENTS, "state", True)
CONDITIONS = {"torch": "2.13.0", "threads": "1", "seed": "0", "horovod": "-"}


def float32(value: float) -> float:
    """``value`` in the precision of float32."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def tensor(values: Sequence[float]) -> Tensor:
    """The fingerprint of a float32 tensor of up to four elements, or of its first four."""
    data = struct.pack(f"{len(values)}f", *values)
    return Tensor(hashlib.sha256(data).hexdigest()[:16], math.sqrt(sum(v * v for v in values)), tuple(values[:4]))


def reduced(
    kind: str = "allreduce", elements: int = ELEMENTS, dtype: str = "float32", reduction: str = "average"
) -> Collective:
    """The entry for the gradients of a step."""
    return Collective(kind, reduction, dtype, elements, "gradients", True)


def mean(ranks: Sequence[Values], rank: int, name: str) -> Values:
    """The mean over the ranks, as both Horovod and DDP make it."""
    return [float32(sum(values) / len(ranks)) for values in zip(*ranks, strict=True)]


def total(ranks: Sequence[Values], rank: int, name: str) -> Values:
    """The sum over the ranks."""
    return [float32(sum(values)) for values in zip(*ranks, strict=True)]


def local(ranks: Sequence[Values], rank: int, name: str) -> Values:
    """No reduction."""
    return ranks[rank]


def clipped(limit: float) -> Callable[[list[Values]], list[Values]]:
    """Clipping to a norm."""

    def clip(gradients: list[Values]) -> list[Values]:
        norm = math.sqrt(sum(v * v for values in gradients for v in values))
        factor = min(1.0, limit / (norm + 1e-6))
        return [[float32(v * factor) for v in values] for values in gradients]

    return clip


def unclipped(gradients: list[Values]) -> list[Values]:
    """The gradients as they are."""
    return gradients


Reduce = Callable[[Sequence[Values], int, str], "Values | None"]


@dataclass(frozen=True)
class Training:
    """What a program does; the defaults are an original that is migrated well."""

    size: int = 2
    steps: int = 6
    epoch: int = 3
    rates: Callable[[int, int], float] = lambda rank, step: 0.1
    start: Callable[[int], tuple[Values, ...]] = lambda rank: START
    batch: Callable[[int, int], int] = lambda rank, step: 10 * step + rank
    reduce: Reduce = mean
    before: Callable[[list[Values]], list[Values]] = unclipped
    after: Callable[[list[Values]], list[Values]] = unclipped
    scale: float = 1.0
    backwards: int = 1
    momentum: float = 0.0
    velocity: tuple[Values, ...] = ([0.0] * 4, [0.0] * 2)
    optimizer: str = "SGD"
    zero_step: bool = False
    decay_at_zero_step: float = 0.0
    broadcast_after_zero_step: bool = False
    sent: tuple[Collective, ...] = (reduced(),)
    at_start: tuple[Collective, ...] = (BROADCAST,)
    metrics: tuple[Collective, ...] = (METRIC,)
    conditions: dict[str, str] = field(default_factory=lambda: dict(CONDITIONS))
    states: dict[str, str] = field(default_factory=lambda: {"torch": "aa", "python": "bb"})


def trace(training: Training | None = None, **changes: object) -> Trace:
    """The trace of a training, the default one with ``changes``."""
    plan = replace(training or Training(), **changes)  # type: ignore[arg-type]
    return Trace(tuple(_ranks(plan)))


def side(training: Training | None = None, **changes: object) -> Side:
    """One side of a comparison, of which nothing was printed."""
    return Side(trace(training, **changes))


def with_rank(whole: Trace, number: int, **changes: object) -> Trace:
    """``whole`` with fields of one rank changed."""
    ranks = [replace(rank, **changes) if rank.rank == number else rank for rank in whole.ranks]  # type: ignore[arg-type]
    return Trace(tuple(ranks))


def with_end(whole: Trace, number: int, **changes: object) -> Trace:
    """``whole`` with fields of the end of one rank changed."""
    rank = whole.ranks[number]
    assert rank.end is not None
    return with_rank(whole, number, end=replace(rank.end, **changes))  # type: ignore[arg-type]


def with_steps(whole: Trace, change: Callable[[int, Step], Step]) -> Trace:
    """``whole`` with every step of every rank changed."""
    return Trace(
        tuple(replace(rank, steps=tuple(change(rank.rank, step) for step in rank.steps)) for rank in whole.ranks)
    )


def cut(whole: Trace, number: int, steps: int) -> Trace:
    """``whole`` as it is if one rank is killed after some steps."""
    return with_rank(whole, number, steps=whole.ranks[number].steps[:steps], end=None)


def save(keys: str = "k", values: str = "v", sample: tuple[str, ...] = NAMES) -> Save:
    """A checkpoint."""
    return Save("model.pt", 2, keys, values, sample)


def perturbed(size: float, seed: int) -> Callable[[list[Values]], list[Values]]:
    """Noise of a relative size on gradients, the same on ranks whose gradients are the same."""

    def perturb(gradients: list[Values]) -> list[Values]:
        generator = random.Random(f"{seed} {gradients}")
        return [[float32(v * (1 + size * generator.uniform(-1, 1))) for v in values] for values in gradients]

    return perturb


def _ranks(plan: Training) -> list[Rank]:
    weights = [[list(values) for values in plan.start(rank)] for rank in range(plan.size)]
    velocity = [[list(values) for values in plan.velocity] for _ in range(plan.size)]
    steps: list[list[Step]] = [[] for _ in range(plan.size)]
    if plan.zero_step:
        _take_zero_step(plan, weights, steps)
    started = [[tensor(values) for values in own] for own in weights]
    for number in range(1, plan.steps + 1):
        _take_step(plan, number, weights, velocity, steps)
    return [_rank(plan, rank, started[rank], steps[rank]) for rank in range(plan.size)]


def _take_zero_step(plan: Training, weights: list[list[Values]], steps: list[list[Step]]) -> None:
    for rank, own in enumerate(weights):
        before = tuple(tensor(values) for values in own)
        own[:] = [[float32(v * (1 - plan.decay_at_zero_step)) for v in values] for values in own]
        zeros = tuple(tensor([0.0] * len(values)) for values in own)
        after = tuple(tensor(values) for values in own)
        steps[rank].append(Step(1, 1, True, (), (plan.rates(rank, 0),), "", zeros, after, (), 0, 0.0, before))
    if plan.broadcast_after_zero_step:
        weights[1:] = [[list(values) for values in weights[0]] for _ in weights[1:]]


def _take_step(
    plan: Training, number: int, weights: list[list[Values]], velocity: list[list[Values]], steps: list[list[Step]]
) -> None:
    gradients, losses = [], []
    for rank, own in enumerate(weights):
        loss, slopes = _backward(own, plan.batch(rank, number), plan.scale)
        losses.append(loss)
        gradients.append(plan.before(slopes))
    for rank, own in enumerate(weights):
        mine = [plan.reduce([each[place] for each in gradients], rank, name) for place, name in enumerate(NAMES)]
        present = plan.after([values for values in mine if values is not None])
        applied = [None if values is None else present.pop(0) for values in mine]
        for place, slopes_ in enumerate(applied):
            _update(plan, plan.rates(rank, number), own[place], velocity[rank][place], slopes_)
        steps[rank].append(_step(plan, rank, number, losses[rank], applied, own))


def _backward(weights: list[Values], batch: int, scale: float) -> tuple[float, list[Values]]:
    generator = random.Random(batch)
    targets = [[generator.gauss(0, 1) for _ in values] for values in weights]
    pairs = [list(zip(values, goal, strict=True)) for values, goal in zip(weights, targets, strict=True)]
    loss = sum((v - goal) ** 2 for each in pairs for v, goal in each)
    return float32(loss * scale), [[float32(2 * (v - goal) * scale) for v, goal in each] for each in pairs]


def _update(plan: Training, rate: float, values: Values, velocity: Values, gradient: Values | None) -> None:
    for place in range(len(values)) if gradient is not None else ():
        velocity[place] = float32(plan.momentum * velocity[place] + gradient[place])  # type: ignore[index]
        values[place] = float32(values[place] - rate * velocity[place])


def _step(plan: Training, rank: int, number: int, loss: float, applied: list[Values | None], own: list[Values]) -> Step:
    epoch_end = number % plan.epoch == 0
    # The metrics of an epoch are reduced after its last step, before the next one.
    after_epoch = plan.metrics if number > 1 and (number - 1) % plan.epoch == 0 else ()
    first = plan.at_start if number == 1 else ()
    assert plan.epoch > 1 or not epoch_end
    return Step(
        number=number + plan.zero_step,
        optimizer=1,
        is_initial=False,
        losses=(loss,) * plan.backwards,
        rates=(plan.rates(rank, number),),
        batch=f"batch{plan.batch(rank, number)}",
        gradients=tuple(None if values is None else tensor(values) for values in applied),
        parameters=tuple(tensor(values) for values in own),
        collectives=(*first, *after_epoch, *plan.sent),
        backwards=plan.backwards,
        seconds=0.5 + 0.01 * number,
    )


def _rank(plan: Training, rank: int, started: Sequence[Tensor], steps: Sequence[Step]) -> Rank:
    parameters = tuple(Parameter(name, shape, "float32") for name, shape in zip(NAMES, SHAPES, strict=True))
    return Rank(
        rank=rank,
        size=plan.size,
        program="train.py",
        arguments=("--epochs", "2"),
        conditions=plan.conditions,
        random=plan.states,
        optimizers=(Optimizer(1, plan.optimizer, parameters, tuple(started)),),
        steps=tuple(steps),
        saves=(save(),) if rank == 0 else (),
        end=End("", 1.0, {"bn.running_mean": tensor([0.25, 0.75])}, plan.metrics, {}, False),
    )
