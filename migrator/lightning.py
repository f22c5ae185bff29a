"""How a program's PyTorch Lightning is told to use DDP, as far as the project's requirements say."""

from __future__ import annotations

from collections.abc import Sequence

from migrator.reading import Input
from migrator.required import requirements_of

_NAMES = ("pytorch-lightning", "lightning")
_OLD = [
    f"{major}.{minor}.{patch}" for major, minors in ((0, 11), (1, 5)) for minor in range(minors) for patch in range(10)
]
_NEW = [f"1.{minor}.{patch}" for minor in range(5, 10) for patch in range(10)]
_NEW += [f"2.{minor}.{patch}" for minor in range(20) for patch in range(10)]


def has_strategy(inputs: Sequence[Input]) -> bool:
    """Whether the Trainer takes ``strategy``, as from Lightning 1.5 on: it does unless an earlier one is required."""
    if not any(b"lightning" in given.data for given in inputs):
        return True
    versions = (r.versions for r in requirements_of(inputs) if r.name in _NAMES and r.versions)
    allowed = next(versions, None)
    return allowed is None or any(allowed.filter(_NEW)) or not any(allowed.filter(_OLD))
