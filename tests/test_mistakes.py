"""Wrong migrations are caught, each for its reason, and right ones are not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from mistakes import HARMLESS, MISTAKES, Variation
from seeded import Runs, blamed, compared, is_named, original_runs

DOCS = Path(__file__).parents[1] / "docs" / "mistakes.md"
# benchmarks/mistakes.py bisects all of them.
BISECTED = (
    "sparse gradients summed",
    "a model left out of the reduction",
    "weights not broadcast",
    "no set_epoch",
    "learning rate not scaled",
    "metric reduced on one rank",
)
Originals = Callable[[Variation], Runs]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Originals:
    known: dict[str, Runs] = {}

    def of(variation: Variation) -> Runs:
        if variation.program not in known:
            known[variation.program] = original_runs(variation, tmp_path_factory.mktemp("original"))
        return known[variation.program]

    return of


def named(variation: Variation) -> str:
    return variation.name


@pytest.mark.ranks
@pytest.mark.parametrize("mistake", MISTAKES, ids=named)
def test_a_mistake_is_detected_and_its_reason_named(mistake: Variation, originals: Originals, tmp_path: Path) -> None:
    comparison = compared(mistake, originals(mistake), tmp_path)
    assert comparison.verdict in ("different", "could-not-run")
    assert is_named(mistake, comparison), [comparison.sentence, *(each.sentence for each in comparison.reasons)]


@pytest.mark.ranks
@pytest.mark.parametrize("variation", HARMLESS, ids=named)
def test_what_is_harmless_is_not_reported(variation: Variation, originals: Originals, tmp_path: Path) -> None:
    comparison = compared(variation, originals(variation), tmp_path)
    assert comparison.verdict == "equal", comparison.sentence
    assert comparison.reasons == ()


@pytest.mark.ranks
@pytest.mark.parametrize("name", BISECTED)
def test_the_edit_is_blamed(name: str, tmp_path: Path) -> None:
    mistake = next(each for each in MISTAKES if each.name == name)
    text = blamed(mistake, tmp_path)
    assert mistake.blame in text
    assert len(text.splitlines()) <= 5


def test_each_is_made_once_and_by_a_name_of_its_own() -> None:
    assert max(Counter(each.name for each in (*MISTAKES, *HARMLESS)).values()) == 1
    assert len({(each.program, each.gradients, each.migrated) for each in MISTAKES}) == len(MISTAKES)


def test_the_score_in_the_docs_is_of_these() -> None:
    rows = [line.split("|")[1].strip() for line in DOCS.read_text("utf-8").splitlines() if re.match(r"\| [a-z]", line)]
    assert rows == ["mistake", *(each.name for each in MISTAKES), "harmless", *(each.name for each in HARMLESS)]
