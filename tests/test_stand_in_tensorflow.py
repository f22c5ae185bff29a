"""The stand-in for TensorFlow's Horovod: it answers alike, key by key, in one process for each rank.

Horovod was asked with TensorFlow 2.15 and Keras 2, the stand-in is with the TensorFlow that is installed, with
``tf_keras`` as ``tf.keras``; ``horovod.keras`` is with Keras 3, where Horovod itself cannot work.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from answers import NUMBER, Answers, recorded

from migrator.parity.launch import Launch, start

HERE = Path(__file__).parent
QUESTIONS = HERE / "tensorflow_questions"
HOROVOD = recorded(QUESTIONS / "answers.json")
DEVIATIONS = json.loads((QUESTIONS / "deviations.json").read_text("utf-8"))
FIRST, LAST = ("before", "api"), ("sets",)  # as they ask what comes before, and change what comes after them
TOPICS = [*FIRST, *sorted(HOROVOD.keys() - {*FIRST, *LAST}), "failures", *LAST]
# Plain values go back to the last commit with every synchronization, weights with failures only.
SEEN = ", ".join(f"tuple(0, list({weight}), float32[1]:[1.5])" for weight in (1.0, 1.0, 7.0, 7.0))
AFTER_FAILURES = {"run": "'done'", "seen": f"list({SEEN})", "resets": "list(2, 2, 2)"}
TRAINED = {"fits", "keras_module", "moments", "normalization", "saving", "states", "tapes"}
TRACE = re.compile(r"^TRACE (\S+) (.*)$", re.MULTILINE)
LIMIT = 900.0
ENVIRONMENT = {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1"}


def asked(folder: Path) -> dict[str, list[dict[str, str]]]:
    """What the stand-in answers on each rank, by topic."""
    program = str(QUESTIONS / "all.py")
    arguments = (str(folder), *TOPICS)
    launch = Launch(
        program,
        arguments,
        horovod="stand-in",
        device="cpu",
        deterministic=False,
        folder=folder,
        environment=ENVIRONMENT,
        limit=LIMIT,
    )
    outcome = start(launch, folder / "output")
    assert outcome.ended == "finished", [rank.error for rank in outcome.ranks]
    return {
        topic: [dict(TRACE.findall((folder / f"{topic}.{rank}").read_text("utf-8"))) for rank in range(2)]
        for topic in TOPICS
    }


def deviating(topic: str, rank: int) -> dict[str, str]:
    """The answers that are listed as other than Horovod's."""
    known = [deviation["answers"].get(topic, {}).get("2", {}).get(str(rank), {}) for deviation in DEVIATIONS]
    return {key: answer for found in known for key, answer in found.items()}


def is_close(topic: str, ours: str, theirs: str) -> bool:
    """Whether two answers are equal: trainings to what other versions of TensorFlow round differently."""
    if ours == theirs or topic not in TRAINED:
        return ours == theirs
    pairs = list(zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=False))
    return NUMBER.sub("", ours) == NUMBER.sub("", theirs) and all(
        math.isclose(float(a), float(b), rel_tol=1e-5, abs_tol=2e-6) for a, b in pairs
    )


@pytest.mark.ranks
def test_answers(tmp_path: Path) -> None:
    answers = asked(tmp_path)
    assert answers.pop("failures") == [AFTER_FAILURES] * 2
    wrong: list[tuple[str, int, str, str | None, str | None]] = []
    for topic, ranks in answers.items():
        for rank, ours in enumerate(ranks):
            theirs = HOROVOD[topic]["2"][str(rank)]
            deviations = deviating(topic, rank)
            assert deviations.keys() <= theirs.keys()
            same = [key for key, answer in deviations.items() if is_close(topic, answer, theirs[key])]
            assert same == [], f"{topic} does not deviate"
            expected = theirs | deviations
            for key in ours.keys() | theirs.keys():
                if key not in ours or key not in theirs or not is_close(topic, ours[key], expected[key]):
                    wrong.append((topic, rank, key, ours.get(key), expected.get(key)))
    assert wrong == []


def test_all_questions_are_asked() -> None:
    assert {path.stem for path in QUESTIONS.glob("*.py")} - {"all", "ask", "failures", "record"} == HOROVOD.keys()


def counted(known: Answers) -> int:
    """How many answers there are, those of each rank for themselves."""
    return sum(len(keys) for sizes in known.values() for ranks in sizes.values() for keys in ranks.values())


def test_deviations_are_documented() -> None:
    page = (HERE.parent / "docs" / "stand-in.md").read_text("utf-8")
    rows = [[deviation[column] for column in ("what", "horovod", "stand_in", "why")] for deviation in DEVIATIONS]
    assert "".join(f"| {' | '.join(row)} |\n" for row in rows) in page
    others = sum(counted(deviation["answers"]) for deviation in DEVIATIONS)
    assert f"| {counted(HOROVOD)} answers by question and rank, {others} of them other, as listed below |" in page
