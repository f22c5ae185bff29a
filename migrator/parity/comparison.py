"""What comparing two runs came to: the model that the reports of parity render.

Steps count from 1 for each optimizer; step 0 is what was there before the first. Horovod's step with zero gradients is
not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["equal", "within-noise", "different", "could-not-run"]
SideName = Literal["original", "migrated"]
Kind = Literal[
    "ranks",
    "optimizer",
    "broadcast",
    "weights",
    "batch",
    "backwards",
    "loss",
    "reduction",
    "gradient",
    "rate",
    "parameter",
    "drift",
    "collective",
    "steps",
    "buffer",
    "checkpoints",
    "checkpoint-keys",
    "checkpoint-values",
    "output",
]
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]
TRAINING: frozenset[Kind] = frozenset({"weights", "batch", "loss", "gradient", "rate", "parameter"})
NOISY: frozenset[Kind] = TRAINING | {"buffer", "checkpoint-values", "output", "drift", "steps"}
ROUNDING_ULPS = 32.0
LARGE_NOISE = 1e-3


@dataclass(frozen=True)
class Failure:
    """Why a side did not run to its end: the rank that failed first (None for all), and what it said."""

    rank: int | None
    message: str
    traceback: str = ""


@dataclass(frozen=True)
class Distance:
    """How far a value of the migrated run is from the original's.

    ``relative`` is measured against the larger of the two, ``ulps`` is that in units of the dtype's last place, and
    ``ratio`` is migrated over original. All of it is seen through a norm and a few elements: where bits differ that
    these do not show, ``absolute`` is zero and ``relative`` half a last place.
    """

    absolute: float
    relative: float
    ulps: float
    ratio: float | None = None

    @property
    def is_rounding(self) -> bool:
        """Whether it is a few units in the last place: the size that another order of summation leaves."""
        return self.ulps <= ROUNDING_ULPS

    def __str__(self) -> str:
        if self.absolute == 0:
            return "by bits that neither the norm nor the recorded elements show"
        if self.relative == float("inf"):
            return "beyond measure"
        return f"by {self.absolute:.2g} (relative {self.relative:.2g})"


@dataclass(frozen=True)
class Difference:
    """The first place where the runs part in one respect.

    ``name`` is the parameter, buffer, file or collective, ``count`` how many differ there, ``worst`` the largest of
    their relative distances, and ``order`` the place among all steps of the rank.
    """

    kind: Kind
    rank: int | None
    step: int | None
    original: str
    migrated: str
    name: str = ""
    optimizer: int = 1
    distance: Distance | None = None
    worst: float = 0.0
    count: int = 1
    order: float = 0
    is_noise: bool = False

    @property
    def place(self) -> str:
        """Where it is, in words."""
        step = {None: "", 0: "before the first step"}.get(self.step, f"step {self.step}")
        optimizer = f"optimizer {self.optimizer}" if self.optimizer > 1 else ""
        rank = "" if self.rank is None else f"rank {self.rank}"
        return ", ".join(part for part in (step, optimizer, rank) if part)

    @property
    def sentence(self) -> str:
        """The difference as one sentence."""
        text = _SENTENCES[self.kind].format(d=self, others=self._others)
        return f"{self.place}: {text}" if self.place else text

    @property
    def _others(self) -> str:
        return f" (and {self.count - 1} more)" if self.count > 1 else ""


_SENTENCES: Mapping[Kind, str] = {
    "ranks": "the number of ranks differs: {d.original} / {d.migrated}",
    "optimizer": "the optimizers differ: {d.original} / {d.migrated}",
    "broadcast": "the original broadcasts its weights ({d.original}), the migrated program does not",
    "weights": "{d.name}{others} starts from other values, {d.distance}",
    "batch": "the model is given another batch",
    "backwards": "the number of backward passes differs: {d.original} / {d.migrated}",
    "loss": "the loss differs: {d.original} / {d.migrated}",
    "reduction": "the number of gradient elements that are reduced differs: {d.original} / {d.migrated}",
    "gradient": "the gradient of {d.name}{others} differs: {d.original} / {d.migrated}, {d.distance}",
    "rate": "the learning rate differs: {d.original} / {d.migrated}",
    "parameter": "{d.name}{others} differs after the step, {d.distance}",
    "drift": "{d.name} is no longer the same on all ranks of the migrated program; it is in the original",
    "collective": "collective {d.name} differs: {d.original} / {d.migrated}",
    "steps": "the number of steps differs: {d.original} / {d.migrated}",
    "buffer": "buffer {d.name}{others} differs at the end, {d.distance}",
    "checkpoints": "the number of saved files differs: {d.original} / {d.migrated}",
    "checkpoint-keys": "the checkpoint's keys differ ({d.name}): {d.original} / {d.migrated}",
    "checkpoint-values": "the checkpoint's values differ ({d.name})",
    "output": "another line is printed: {d.original} / {d.migrated}",
}


@dataclass(frozen=True)
class Condition:
    """Something that both runs should share; ``matters`` tells whether numbers may depend on it."""

    name: str
    original: str
    migrated: str
    matters: bool
    remark: str = ""

    @property
    def is_same(self) -> bool:
        """Whether both sides had it alike."""
        return self.original == self.migrated


@dataclass(frozen=True)
class Drift:
    """The first step after which ranks of one side hold different weights."""

    side: SideName
    step: int
    optimizer: int
    parameter: str
    rank: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class StepDistance:
    """One step over all ranks: the mean loss of each side, and the largest relative distances.

    A distance is None where the step was not recorded, and zero only where all bits are equal; ``noise`` is how far two
    runs of the original are apart in their parameters.
    """

    optimizer: int
    step: int
    original_loss: float | None
    migrated_loss: float | None
    loss: float | None
    gradient: float | None
    parameter: float | None
    noise: float | None = None


@dataclass(frozen=True)
class ParameterDivergence:
    """When a parameter, or its gradient, first differs, on which rank and how far; then how far at the last step."""

    optimizer: int
    name: str
    shape: tuple[int, ...]
    step: int
    rank: int
    what: Literal["weights", "gradient", "parameter"]
    first: Distance
    last: Distance | None


@dataclass(frozen=True)
class Reason:
    """What explains a difference, as one sentence, with the rule that says more.

    ``is_expected`` is true where a right migration differs in this way too, false where it points to a mistake.
    """

    name: str
    sentence: str
    rule: str = ""
    is_expected: bool = False


@dataclass(frozen=True)
class Noise:
    """What may differ without meaning: ``given`` relative distance, or what two runs of the original differed by."""

    given: float | None = None
    measured: Mapping[Kind, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Extent:
    """How much was compared: steps over all ranks, and those of them whose gradients and parameters were recorded."""

    ranks: int = 0
    steps: int = 0
    recorded: int = 0


@dataclass(frozen=True)
class Comparison:
    """The verdict, and everything that led to it; ``differences`` are in the order of cause and effect."""

    verdict: Verdict
    extent: Extent
    conditions: tuple[Condition, ...] = ()
    differences: tuple[Difference, ...] = ()
    reasons: tuple[Reason, ...] = ()
    drifts: tuple[Drift, ...] = ()
    steps: tuple[StepDistance, ...] = ()
    parameters: tuple[ParameterDivergence, ...] = ()
    noise: Noise | None = None
    notes: tuple[str, ...] = ()
    failures: Mapping[SideName, Failure] = field(default_factory=dict)

    @property
    def first(self) -> Difference | None:
        """Where training first parts, or else the first difference of any kind; beyond noise, if any is."""
        beyond = [each for each in self.differences if not each.is_noise] or list(self.differences)
        return next((each for each in beyond if each.kind in TRAINING), beyond[0] if beyond else None)

    @property
    def is_same(self) -> bool:
        """Whether both programs compute the same, but for noise."""
        return self.verdict in ("equal", "within-noise")

    @property
    def wants_noise(self) -> bool:
        """Whether a second run of the original could change the verdict."""
        kinds = {each.kind for each in self.differences}
        return self.verdict == "different" and self.noise is None and kinds <= NOISY

    @property
    def sentence(self) -> str:
        """The verdict as one sentence."""
        return _VERDICTS[self.verdict](self)

    @property
    def growth(self) -> str:
        """How the distance between the parameters grows, or nothing where that says nothing."""
        apart = [each for each in self.steps if each.parameter]
        if len(apart) < 2:
            return ""
        first, last = apart[0], apart[-1]
        return (
            f"relative distance of the parameters: {first.parameter:.2g} after step {first.step}, "
            f"{last.parameter:.2g} after step {last.step}"
        )


def _equal(comparison: Comparison) -> str:
    extent = comparison.extent
    if not extent.steps:
        return "Equal: no optimizer took a step, and what the programs print and exchange is the same."
    if not extent.recorded:
        return (
            f"Equal losses, learning rates and batches in {_steps(extent)}; gradients and parameters were not recorded."
        )
    recorded = "" if extent.recorded == extent.steps else f" (recorded in {extent.recorded} of them)"
    return f"Equal: losses, gradients and parameters{recorded} have the same bits in {_steps(extent)}."


def _steps(extent: Extent) -> str:
    steps = "1 step" if extent.steps == 1 else f"{extent.steps} steps"
    return f"{steps} on {extent.ranks} rank{'s' if extent.ranks > 1 else ''}"


def _within_noise(comparison: Comparison) -> str:
    if comparison.noise is not None and comparison.noise.given is not None:
        return f"Within noise: no distance is larger than the given {comparison.noise.given:.2g}."
    text = "Within noise: no distance is larger than what runs of the original differ by among themselves"
    worst = max(comparison.noise.measured.values(), default=0.0) if comparison.noise is not None else 0.0
    if worst > LARGE_NOISE:
        text += f", up to {worst:.2g} relative: a mistake of that size would not show, so make the program repeatable"
    return f"{text}."


def _different(comparison: Comparison) -> str:
    first = comparison.first
    return f"Different: {first.sentence}." if first else "Different."


def _could_not_run(comparison: Comparison) -> str:
    failures = comparison.failures.items()
    return "Could not run: " + "; ".join(f"{_whose(side, failure)}: {failure.message}" for side, failure in failures)


def _whose(side: SideName, failure: Failure) -> str:
    is_named = failure.rank is None or failure.message.startswith("rank")
    return side if is_named else f"{side}, rank {failure.rank}"


_VERDICTS = {
    "equal": _equal,
    "within-noise": _within_noise,
    "different": _different,
    "could-not-run": _could_not_run,
}
