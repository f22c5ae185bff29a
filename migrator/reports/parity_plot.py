"""Plots of parity as SVG: both loss curves, and the distance of the runs on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from migrator.parity.comparison import StepDistance

WIDTH, HEIGHT = 720.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 12.0, 26.0, 40.0
LARGEST = 1000
FEW = 60
BAND = 18.0
SMALLEST_DRAWN, LARGEST_DRAWN = 1e-300, 1e300

Number = float | None
Point = tuple[int, float]
Scale = Callable[[float], float]


@dataclass(frozen=True)
class Line:
    """A curve: what it is called, the class that colors it, and its value at each step."""

    title: str
    style: str
    values: tuple[Point, ...]


def loss_plot(steps: Sequence[StepDistance], name: str) -> str:
    """The mean loss over the ranks, of the original and of the migrated program."""
    lines = [
        Line("original", "original", _points(steps, lambda each: _drawable(each.original_loss))),
        Line("migrated", "migrated", _points(steps, lambda each: _drawable(each.migrated_loss))),
    ]
    finite = [value for line in lines for _, value in line.values if math.isfinite(value)]
    if not finite:
        return _nothing(name, "Loss", "no finite loss was recorded")
    low, high = _padded(min(finite), max(finite))
    ticks = [(value, _shown(value)) for value in _ticks(low, high)]
    lost = sum(not math.isfinite(value) for line in lines for _, value in line.values)
    remark = f"{lost} values that are not finite are left out." if lost else ""
    summary = f"{len(lines[0].values)} steps. {remark}".strip()
    return _plot(name, "Loss", summary, lines, _linear(low, high, HEIGHT - BOTTOM, TOP), ticks)


def distance_plot(steps: Sequence[StepDistance], name: str) -> str:
    """The largest relative distance in each step; equal bits have a place of their own below the scale."""
    lines = [
        Line("parameters", "parameter", _points(steps, lambda each: each.parameter)),
        Line("gradients", "gradient", _points(steps, lambda each: each.gradient)),
        Line("loss", "loss", _points(steps, lambda each: each.loss)),
        Line("original against itself", "noise", _points(steps, lambda each: each.noise)),
    ]
    lines = [line for line in lines if line.values]
    if not lines:
        return _nothing(name, "Difference", "nothing was recorded that could be compared")
    apart = [value for line in lines for _, value in line.values if 0 < value < math.inf]
    low, high = _decades(apart)
    has_infinite = any(value == math.inf for line in lines for _, value in line.values)
    top = TOP + (BAND if has_infinite else 0)
    scale = _logarithmic(low, high, HEIGHT - BOTTOM - BAND, top)
    exponents = range(low, high + 1, max(1, (high - low) // 5))
    ticks = [(10.0**exponent, f"1e{exponent}") for exponent in exponents] if apart else []
    ticks += [(0.0, "equal")] + ([(math.inf, "not finite")] if has_infinite else [])
    different = sum(value > 0 for _, value in lines[0].values)
    summary = f"{lines[0].title}: {different} of {len(lines[0].values)} steps differ."
    return _plot(name, "Largest relative difference", summary, lines, scale, ticks)


def downsampled(points: Sequence[Point], largest: int = LARGEST) -> list[Point]:
    """At most ``largest`` points; of each stretch the lowest and the highest are kept, so that no peak is lost."""
    if len(points) <= largest:
        return list(points)
    stretch = math.ceil(2 * len(points) / largest)
    kept: list[Point] = []
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        finite = [point for point in part if not math.isnan(point[1])] or part
        kept += sorted({min(finite, key=lambda each: each[1]), max(finite, key=lambda each: each[1])})
    return kept


def _points(steps: Sequence[StepDistance], value: Callable[[StepDistance], Number]) -> tuple[Point, ...]:
    points = [(each.step, found) for each in steps if (found := value(each)) is not None]
    return tuple(downsampled(points))


def _drawable(value: Number) -> Number:
    return math.inf if value is not None and abs(value) > LARGEST_DRAWN else value


def _plot(
    name: str, title: str, summary: str, lines: Sequence[Line], y: Scale, ticks: Sequence[tuple[float, str]]
) -> str:
    numbers = [step for line in lines for step, _ in line.values]
    first, last = min(numbers), max(numbers)
    x = _linear(first, last, LEFT, WIDTH - RIGHT) if last > first else lambda step: (LEFT + WIDTH - RIGHT) / 2
    parts = [
        *_frame(name, title, summary),
        *_levels(y, ticks),
        *_steps(x, first, last),
        *(part for line in lines for part in _curve(line, x, y)),
        *_legend(lines),
        "</svg>",
    ]
    return "\n".join(parts)


def _nothing(name: str, title: str, text: str) -> str:
    middle = f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT / 2:.0f}" text-anchor="middle">{escape(text)}</text>'
    return "\n".join([*_frame(name, title, text), middle, "</svg>"])


def _frame(name: str, title: str, summary: str) -> Iterator[str]:
    yield (
        f'<svg class="plot" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" '
        f'aria-labelledby="{name}-title {name}-text" xmlns="http://www.w3.org/2000/svg">'
    )
    yield f'<title id="{name}-title">{escape(title)}</title>'
    yield f'<desc id="{name}-text">{escape(summary)}</desc>'


def _levels(y: Scale, ticks: Sequence[tuple[float, str]]) -> Iterator[str]:
    for value, text in ticks:
        height = y(value)
        yield f'<line class="grid" x1="{LEFT:.0f}" x2="{WIDTH - RIGHT:.0f}" y1="{height:.1f}" y2="{height:.1f}"/>'
        yield f'<text x="{LEFT - 6:.0f}" y="{height + 4:.1f}" text-anchor="end">{escape(text)}</text>'


def _steps(x: Scale, first: int, last: int) -> Iterator[str]:
    for step in sorted({round(first + (last - first) * share / 4) for share in range(5)}):
        yield f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 18:.0f}" text-anchor="middle">{step}</text>'
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 6:.0f}" text-anchor="middle">step</text>'


def _curve(line: Line, x: Scale, y: Scale) -> Iterator[str]:
    for part in _unbroken(line.values, y):
        places = [(x(step), y(value)) for step, value in part]
        if len(places) > 1:
            points = " ".join(f"{across:.1f},{height:.1f}" for across, height in places)
            yield f'<polyline class="{line.style}" points="{points}"/>'
        for across, height in places if len(line.values) <= FEW or len(places) == 1 else ():
            yield f'<circle class="{line.style}" cx="{across:.1f}" cy="{height:.1f}" r="3"/>'


def _unbroken(values: Sequence[Point], y: Scale) -> Iterator[list[Point]]:
    """Stretches without a value that the scale does not have."""
    part: list[Point] = []
    for point in values:
        if math.isfinite(y(point[1])):
            part.append(point)
        elif part:
            yield part
            part = []
    if part:
        yield part


def _legend(lines: Sequence[Line]) -> Iterator[str]:
    across = LEFT
    for line in lines:
        yield f'<line class="{line.style}" x1="{across:.0f}" x2="{across + 24:.0f}" y1="12" y2="12"/>'
        yield f'<text x="{across + 30:.0f}" y="16">{escape(line.title)}</text>'
        across += 50 + 7.5 * len(line.title)


def _linear(low: float, high: float, start: float, end: float) -> Scale:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _logarithmic(low: int, high: int, start: float, end: float) -> Scale:
    linear = _linear(low, high, start, end)

    def scale(value: float) -> float:
        if math.isnan(value):
            return math.nan
        if value <= 0:
            return start + BAND
        return linear(math.log10(value)) if value < math.inf else TOP

    return scale


def _decades(values: Sequence[float]) -> tuple[int, int]:
    if not values:
        return 0, 1
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _padded(low: float, high: float) -> tuple[float, float]:
    largest = max(abs(low), abs(high))
    if high - low > 1e-9 * largest:
        return low - (high - low) * 0.05, high + (high - low) * 0.05
    pad = largest * 0.1 if largest > SMALLEST_DRAWN else 1.0
    return low - pad, high + pad


def _ticks(low: float, high: float) -> Iterator[float]:
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    size = next(factor * power for factor in (1, 2, 5, 10) if (high - low) / (factor * power) <= 5)
    number = math.ceil(low / size)
    while number * size <= high:
        yield number * size
        number += 1


def _shown(value: float) -> str:
    return f"{value:.4g}" if abs(value) > 1e-12 else "0"
