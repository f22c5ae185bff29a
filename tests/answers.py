"""What real Horovod answered to the questions of ``horovod_questions``, and how answers are compared."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

QUESTIONS = Path(__file__).parent / "horovod_questions"
NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?")

Answers = dict[str, dict[str, dict[str, dict[str, str]]]]  # by topic, number of ranks, rank and key


def recorded(path: Path) -> Answers:
    """The answers in a file, by topic, number of ranks, rank and key."""
    answers: Answers = json.loads(path.read_text("utf-8"))
    return answers


def program(topic: Path) -> str:
    """The questions of a topic, with what they need to be asked."""
    return (QUESTIONS / "ask.py").read_text("utf-8") + topic.read_text("utf-8")


def is_close(ours: str, theirs: str, size: int) -> bool:
    """Whether two answers are equal: to the last bit on two ranks, to 1e-6 on three, where sums have an order."""
    if size == 2 or ours == theirs:
        return ours == theirs
    pairs = list(zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=False))
    return NUMBER.sub("", ours) == NUMBER.sub("", theirs) and all(
        math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-12) for a, b in pairs
    )
