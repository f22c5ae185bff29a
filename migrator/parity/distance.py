"""How far apart two recorded values are. Values that are both not a number are the same value."""

from __future__ import annotations

import math
from collections.abc import Sequence

from migrator.parity.comparison import Distance
from migrator.parity.trace import Tensor

_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def between_tensors(original: Tensor, migrated: Tensor, dtype: str = "float32") -> Distance | None:
    """The distance of two tensors of one shape, or None if their bits are equal; else at least half a last place."""
    if original.digest == migrated.digest or (_is_nan(original) and _is_nan(migrated)):
        return None
    elements = [_apart(*pair) for pair in zip(original.sample, migrated.sample, strict=False)]
    norms = _apart(original.norm, migrated.norm)
    element = max(elements, default=0.0)
    scale = max((abs(each) for each in (*original.sample, *migrated.sample)), default=0.0)
    relative = max(_relative(element, scale), _relative(norms, max(original.norm, migrated.norm)), _epsilon(dtype) / 2)
    return Distance(element or norms, relative, _ulps(relative, dtype), ratio(original.norm, migrated.norm))


def between_numbers(original: float, migrated: float, dtype: str = "float32") -> Distance | None:
    """The distance of two numbers, or None if they are equal."""
    apart = _apart(original, migrated)
    if apart == 0:
        return None
    relative = _relative(apart, max(abs(original), abs(migrated)))
    return Distance(apart, relative, _ulps(relative, dtype), ratio(original, migrated))


def between_sequences(original: Sequence[float], migrated: Sequence[float], dtype: str = "float32") -> Distance | None:
    """The largest distance of numbers at the same place of two sequences, or None if they are equal."""
    if len(original) != len(migrated):
        return Distance(math.inf, math.inf, math.inf)
    pairs = zip(original, migrated, strict=True)
    distances = [each for pair in pairs if (each := between_numbers(*pair, dtype))]
    return max(distances, key=lambda each: each.relative, default=None)


def ratio(original: float, migrated: float) -> float | None:
    """``migrated`` over ``original``, or None where that is no number."""
    finite = math.isfinite(original) and math.isfinite(migrated)
    return migrated / original if finite and original else None


def mean(values: Sequence[float]) -> float | None:
    """The mean of ``values``, or None of none; summed in order, so that equal values have equal means."""
    return sum(values) / len(values) if values else None


def _apart(first: float, second: float) -> float:
    if first == second or (math.isnan(first) and math.isnan(second)):
        return 0.0
    apart = abs(first - second)
    return apart if math.isfinite(apart) else math.inf


def _relative(apart: float, scale: float) -> float:
    if apart == 0:
        return 0.0
    return apart / scale if math.isfinite(apart) and math.isfinite(scale) and scale else math.inf


def _ulps(relative: float, dtype: str) -> float:
    return relative / _epsilon(dtype)


def _epsilon(dtype: str) -> float:
    return _EPSILON.get(dtype.rpartition(".")[2], 2.0**-23)


def _is_nan(tensor: Tensor) -> bool:
    return math.isnan(tensor.norm) and all(map(math.isnan, tensor.sample))
