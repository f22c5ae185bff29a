"""Which Keras a program is for, 2 or 3, as far as its text or the project's requirements say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from migrator.config import Settings
from migrator.reading import Input
from migrator.required import Required, requirements_of

_USED = re.compile(rb"\btensorflow\b|\bkeras\b")
_LEGACY = re.compile(rb"TF_USE_LEGACY_KERAS|\b(?:import|from)[ \t]+tf_keras\b")
_TENSORFLOW = {"tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-intel", "tf-nightly"}
# TensorFlow 2.16 is the first whose Keras is 3.
_RELEASES = {"tensorflow": [f"2.{minor}.{patch}" for minor in range(31) for patch in range(6)]}
_RELEASES["keras"] = [f"{major}.{minor}.{patch}" for major in (2, 3) for minor in range(31) for patch in range(4)]
_FIRST_OF_KERAS_3 = {"tensorflow": (2, 16), "keras": (3, 0)}


@dataclass(frozen=True)
class Keras:
    """A version of Keras, and what says so."""

    version: Literal["2", "3"]
    reason: str


def with_keras(settings: Settings, inputs: Sequence[Input]) -> tuple[Settings, str]:
    """Settings that say which Keras the program has, and a line for the report; empty without TensorFlow."""
    if not any(_USED.search(given.code) for given in inputs):
        return settings, ""
    if settings.keras != "auto":
        return settings, f"written for Keras {settings.keras}, as asked"
    found = _found(inputs)
    if found is None:
        return settings, "written for Keras 2 and 3, since nothing says which; --keras 2 or 3 makes it shorter"
    return replace(settings, keras=found.version), f"written for Keras {found.version}: {found.reason}"


def _found(inputs: Sequence[Input]) -> Keras | None:
    for given in inputs:
        if match := _LEGACY.search(given.code):
            return Keras("2", f"{given.path} says {' '.join(match[0].decode().split())}")
    return next((found for required in requirements_of(inputs) if (found := _of_requirement(required))), None)


def _of_requirement(required: Required) -> Keras | None:
    """The Keras that a requirement allows, where it allows one only."""
    name = "tensorflow" if required.name in _TENSORFLOW else required.name
    allowed = list(required.versions.filter(_RELEASES.get(name, ())))
    are_new = {tuple(map(int, release.split(".")[:2])) >= _FIRST_OF_KERAS_3[name] for release in allowed}
    if len(are_new) != 1 or not required.versions:
        return None
    return Keras("3" if are_new.pop() else "2", str(required))
