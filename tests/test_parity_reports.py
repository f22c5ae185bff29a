"""The reports of parity: what they say, that they escape what programs bring, and that machines can read them."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import get_args

import pytest
from parity_traces import CONDITIONS, Training, side, total, with_end, with_rank

from migrator.parity.compare import Side, compare
from migrator.parity.comparison import (
    Comparison,
    Condition,
    Difference,
    Distance,
    Drift,
    Extent,
    Failure,
    Noise,
    ParameterDivergence,
    Reason,
    StepDistance,
    Verdict,
)
from migrator.parity.report import (
    Bisection,
    EditEvidence,
    FileEvidence,
    LadderRow,
    ParityReport,
    RunFacts,
)
from migrator.reports.parity import FORMATS
from migrator.reports.parity_markdown import code, prose
from migrator.reports.parity_plot import HEIGHT, WIDTH, distance_plot, downsampled, loss_plot
from migrator.reports.view import View

HOSTILE = "a\x1b[31m<script>\"'&|`*_#\u202e\n]]>--@you\udcff"
RUN = RunFacts(("python", "train.py"), {"torch": "2.13.0"}, "stand-in", "cpu", ("seed 0", "one thread"), 2, 3.25, 20.0)
MIGRATED = replace(RUN, horovod="none", command=("torchrun", "train.py"), seconds=3.0, steps_per_second=25.0)
EDITS = (
    EditEvidence("HVD101", "train.py", 3, "joins the process group", "exact", True),
    EditEvidence("HVD201", "train.py", 9, "DDP averages", "review", False),
    EditEvidence("HVD008", "train.py", 1, "the import goes", "exact", None),
)


def report(comparison: Comparison, **changes: object) -> ParityReport:
    found = ParityReport("train.py", comparison, RUN, MIGRATED, EDITS, (FileEvidence("train.py", 4, 5),))
    return replace(found, **changes)  # type: ignore[arg-type]


EQUAL = report(compare(side(steps=2), side(steps=2)), edits=EDITS[:1], files=())
OTHERS = {**CONDITIONS, "threads": "2", "horovod": "-"}
DIFFERENT = report(
    compare(
        side(steps=2, conditions={**CONDITIONS, "horovod": "stand-in"}), side(steps=2, conditions=OTHERS, reduce=total)
    )
)
FAILED = report(
    compare(
        side(), replace(side(steps=1), failure=Failure(1, "ValueError: no", "Traceback (most recent call last):\n x"))
    ),
)
FULL = replace(
    DIFFERENT,
    bisection=Bisection(("HVD201 train.py",), 4),
    ladder=(LadderRow(1, 10.0, 1.0), LadderRow(2, 15.0, 0.75)),
    advice=("one machine is enough",),
    next_steps=("look at it",),
)


def hostile() -> ParityReport:
    """A report in which every text is hostile, and no number is a number."""
    distance = Distance(math.nan, math.inf, math.inf, math.nan)
    difference = Difference("gradient", 1, 3, HOSTILE, HOSTILE, HOSTILE, 2, distance, math.inf, 3)
    comparison = Comparison(
        verdict="could-not-run",
        extent=Extent(2, 3, 1),
        conditions=(Condition(HOSTILE, HOSTILE, "x", True), Condition(HOSTILE, HOSTILE, HOSTILE, False, "remark")),
        differences=(difference, replace(difference, kind="output", distance=None)),
        reasons=(Reason("name", HOSTILE, "HVD201"), Reason("name", HOSTILE, "", is_expected=True)),
        drifts=(Drift("migrated", 1, 1, HOSTILE, 1, (HOSTILE,)),),
        steps=(
            StepDistance(1, 1, math.nan, math.inf, math.inf, 0.0, None, 0.0),
            StepDistance(1, 2, 1.0, math.nan, None, math.inf, 1e-9, None),
            StepDistance(2, 1, None, None, None, None, None, None),
        ),
        parameters=(ParameterDivergence(1, HOSTILE, (), 1, 0, "gradient", distance, distance),),
        noise=Noise(None, {"loss": math.inf}),
        notes=(HOSTILE,),
        failures={"original": Failure(0, HOSTILE, HOSTILE + "\n" + HOSTILE)},
    )
    run = RunFacts((HOSTILE, HOSTILE), {HOSTILE: HOSTILE}, "real", HOSTILE, (HOSTILE,), 2, math.nan, None)
    return ParityReport(
        program=HOSTILE,
        comparison=comparison,
        original=run,
        migrated=run,
        edits=(EditEvidence("HVD101", HOSTILE, 1, HOSTILE, "review", False),),
        files=(FileEvidence(HOSTILE, 1, 2),),
        bisection=Bisection((HOSTILE,), 2),
        ladder=(LadderRow(1, math.nan, math.inf),),
        advice=(HOSTILE,),
        next_steps=(HOSTILE,),
    )


def rendered(name: str, of: ParityReport, **view: object) -> str:
    return FORMATS[name](of, View(**view))  # type: ignore[arg-type]


ALL = [EQUAL, DIFFERENT, FAILED, FULL, hostile()]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("of", ALL)
def test_every_format_is_printable_and_ends_with_one_newline(name: str, of: ParityReport) -> None:
    shown = rendered(name, of)
    shown.encode("utf-8")
    assert all(line.isprintable() for line in shown.split("\n"))
    assert shown.endswith("\n")
    assert not shown.endswith("\n\n")


# Text


RUNS = (
    "runs\n"
    "                    original            migrated\n"
    "  command           python train.py     torchrun train.py\n"
    "  Horovod           stand-in            none\n"
    "  device            cpu                 the same\n"
    "  deterministic     seed 0, one thread  the same\n"
    "  ranks             2                   the same\n"
    "  seconds           3.2                 3.0\n"
    "  steps per second  20                  25\n"
)


def test_text_of_equal_runs() -> None:
    assert rendered("text", EQUAL) == (
        "train.py: Equal: losses, gradients and parameters have the same bits in 2 steps on 2 ranks.\n"
        "\n" + RUNS + "\n"
        "edits\n"
        "  train.py:3  HVD101  exact  ran  joins the process group\n"
    )


def test_text_of_different_runs() -> None:
    norms = "norm 4.28049 / norm 8.56098, by 3.2 (relative 0.5)"
    first = f"step 1, rank 0: the gradient of fc.weight (and 1 more) differs: {norms}"
    assert rendered("text", FULL) == (
        f"train.py: Different: {first}.\n"
        "  relative distance of the parameters: 0.44 after step 1, 1.8 after step 2\n"
        "  blamed: HVD201 train.py (after 4 runs)\n"
        "  HVD201 mistake?  all gradients are 2 times the original's: over the 2 ranks they are added up where the "
        "original takes the mean\n"
        "\n"
        "differences\n"
        f"  gradient   {first}\n"
        "  parameter  step 1, rank 0: fc.weight (and 1 more) differs after the step, by 0.32 (relative 0.44)\n"
        "  loss       step 2, rank 0: the loss differs: 14.7737436 / 14.121747\n"
        "\n"
        "parameters, by first difference\n"
        "  name       step    rank    what      relative\n"
        "  fc.weight  step 1  rank 0  gradient  0.5\n"
        "  fc.bias    step 1  rank 0  gradient  0.5\n"
        "\n"
        "conditions that differ: original / migrated\n"
        "  threads  1 / 2         matters\n"
        "  horovod  stand-in / -  differs of course\n"
        "\n" + RUNS + "\n"
        "edits\n"
        "  train.py:3  HVD101  exact   ran          joins the process group\n"
        "  train.py:9  HVD201  review  did not run  DDP averages\n"
        "  train.py:1  HVD008  exact   -            the import goes\n"
        "\n"
        "changed lines\n"
        "  train.py  4 of 5 ran\n"
        "\n"
        "ladder\n"
        "  ranks  steps per second  efficiency\n"
        "  1      10                100%\n"
        "  2      15                75%\n"
        "\n"
        "advice\n"
        "  one machine is enough\n"
        "\n"
        "next\n"
        "  hvd-migrate explain HVD201\n"
        "  review the edit that did not run, or run with arguments that reach it\n"
        "  look at it\n"
    )


def test_text_quiet_is_the_verdict_and_its_reasons() -> None:
    lines = rendered("text", FULL, quiet=True).splitlines()
    assert lines[0].startswith("train.py: Different: step 1, rank 0: the gradient of fc.weight (and 1 more) differs")
    assert lines[-1] == (
        "  HVD201 mistake?  all gradients are 2 times the original's: over the 2 ranks they are added up where the "
        "original takes the mean"
    )
    assert "  blamed: HVD201 train.py (after 4 runs)" in lines
    assert len(lines) == 4


def test_text_in_color() -> None:
    assert "\x1b[1;31mDifferent\x1b[0m:" in rendered("text", DIFFERENT, color=True)
    assert "\x1b[1;32mEqual\x1b[0m:" in rendered("text", EQUAL, color=True)
    assert "\x1b" not in rendered("text", DIFFERENT)


def test_text_has_the_traceback() -> None:
    lines = rendered("text", FAILED).splitlines()
    assert lines[:3] == [
        "train.py: Could not run: migrated, rank 1: ValueError: no",
        "  Traceback (most recent call last):",
        "   x",
    ]
    assert "  make the migrated program run by itself: torchrun train.py" in lines


def test_long_sections_are_cut() -> None:
    conditions = tuple(Condition(f"name{number}", "a", "b", True) for number in range(30))
    shown = rendered("text", report(replace(EQUAL.comparison, conditions=conditions)))
    assert "  and 10 more\n" in shown
    assert "name19" in shown
    assert "name20" not in shown


# What the report says besides the comparison


LONG = report(compare(side(steps=20), side(steps=20)), original=replace(RUN, horovod="real"))


def test_speed() -> None:
    assert LONG.speed == 1.25
    assert not LONG.is_slower
    assert LONG.speed_sentence == "the migrated program is not slower than the original (+25%)"
    slow = replace(LONG, migrated=replace(MIGRATED, steps_per_second=15.0))
    assert slow.is_slower
    assert slow.speed_sentence == "the migrated program is slower than the original, by 25%"
    for name in FORMATS:
        assert "slower" in rendered(name, slow)
    unknown = replace(LONG, migrated=replace(MIGRATED, steps_per_second=None))
    assert (unknown.speed, unknown.speed_sentence, unknown.is_slower) == (None, "", False)
    stood_in = replace(slow, original=RUN)
    assert stood_in.speed_sentence.endswith("slower than the original with the stand-in for Horovod, by 25%")


def test_few_steps_say_nothing_of_the_speed() -> None:
    few = replace(EQUAL, migrated=replace(MIGRATED, steps_per_second=1.0))
    assert (few.speed_sentence, few.is_slower) == ("", False)


def test_coverage() -> None:
    assert DIFFERENT.coverage == "1 of 2 edits were exercised by the run"
    assert replace(EQUAL, edits=()).coverage == ""


def test_suggestions() -> None:
    assert DIFFERENT.suggestions == (
        "hvd-migrate explain HVD201",
        "hvd-migrate parity --bisect names the edits that make the difference",
        "review the edit that did not run, or run with arguments that reach it",
    )
    assert EQUAL.suggestions == ()
    assert "look at it" in FULL.suggestions
    assert not any("--bisect" in each for each in FULL.suggestions)


# JSON


def parsed(of: ParityReport) -> dict[str, object]:
    content = json.loads(rendered("json", of), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert isinstance(content, dict)
    return content


KEYS = {
    "schema", "program", "verdict", "summary", "compared", "first", "differences", "reasons", "drifts", "conditions",
    "parameters", "steps", "noise", "failures", "notes", "runs", "speed", "slower", "edits", "files", "bisection",
    "ladder", "advice", "next_steps",
}  # fmt: skip


@pytest.mark.parametrize("of", ALL)
def test_json_has_every_key(of: ParityReport) -> None:
    content = parsed(of)
    assert content.keys() == KEYS
    assert content["schema"] == 1
    assert content["verdict"] in get_args(Verdict)


def test_json_contract() -> None:
    content = parsed(FULL)
    gradient = FULL.comparison.first
    assert gradient is not None
    assert gradient.distance is not None
    assert content["first"] == {
        "kind": "gradient",
        "rank": 0,
        "step": 1,
        "optimizer": 1,
        "name": "fc.weight",
        "original": gradient.original,
        "migrated": gradient.migrated,
        "distance": {
            "absolute": gradient.distance.absolute,
            "relative": 0.5,
            "ulps": 0.5 * 2**23,
            "ratio": 2.0,
            "rounding": False,
        },
        "worst": 0.5,
        "count": 2,
        "noise": False,
        "sentence": gradient.sentence,
    }
    assert content["compared"] == {"ranks": 2, "steps": 2, "recorded": 2}
    assert content["reasons"] == [
        {
            "name": "sum-for-mean",
            "rule": "HVD201",
            "expected": False,
            "sentence": FULL.comparison.reasons[0].sentence,
        }
    ]
    assert content["bisection"] == {"blamed": ["HVD201 train.py"], "tried": 4}
    assert content["ladder"] == [
        {"size": 1, "steps_per_second": 10.0, "efficiency": 1.0},
        {"size": 2, "steps_per_second": 15.0, "efficiency": 0.75},
    ]
    assert content["files"] == [{"path": "train.py", "executed": 4, "total": 5}]
    assert content["speed"] == 1.25
    assert content["slower"] is False
    edits = content["edits"]
    assert isinstance(edits, list)
    assert [edit["exercised"] for edit in edits] == [True, False, None]
    assert edits[0]["class"] == "exact"
    runs = content["runs"]
    assert isinstance(runs, dict)
    assert runs["original"]["horovod"] == "stand-in"
    assert runs["original"]["command"] == ["python", "train.py"]


def test_json_of_numbers_that_are_not_finite() -> None:
    steps = parsed(hostile())["steps"]
    assert isinstance(steps, list)
    assert (steps[0]["original_loss"], steps[0]["migrated_loss"], steps[0]["parameter"]) == ("nan", "inf", None)


# Markdown


def test_markdown() -> None:
    shown = rendered("markdown", FULL)
    assert shown.startswith("## ❌ Parity of `train.py`\n\n**Different: step 1, rank 0: the gradient of fc.weight")
    assert "- **a mistake?** (HVD201) all gradients are 2 times" in shown
    assert "<details><summary>Edits: 1 of 2 edits were exercised by the run</summary>" in shown
    assert "| `train.py:9` | HVD201 | review | **no** | DDP averages |" in shown
    assert shown.count("<details>") == shown.count("</details>") == 6
    assert "- look at it\n" in shown


def test_markdown_escapes() -> None:
    assert prose("<b>*x*</b> a|b @you &") == "&lt;b\\>\\*x\\*&lt;/b\\> a\\|b @<!-- -->you &amp;"
    assert code("a`b|c``d") == "``` a`b\\|c``d ```"
    shown = rendered("markdown", hostile())
    prose_only = [re.sub(r"(`+).*?(?<!`)\1(?!`)", "", line.replace("\\`", "")) for line in shown.splitlines()]
    assert not any("<script>" in line or "@you" in line for line in prose_only if not line.startswith("    "))
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert rows
    for row in rows:
        cells = len(re.sub(r"\\\|", "", row).split("|"))
        assert 4 <= cells <= 8


def test_long_tables_in_markdown_are_cut() -> None:
    conditions = tuple(Condition(f"name{number}", "a", "b", True) for number in range(60))
    shown = rendered("markdown", report(replace(EQUAL.comparison, conditions=conditions)))
    assert "and 10 more" in shown


# HTML


VOID = {"meta"}


class Page(HTMLParser):
    """Well-formedness, and what is asked of the elements."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("of", ALL)
def test_html_is_well_formed_and_self_contained(of: ParityReport) -> None:
    shown = rendered("html", of)
    page = Page(shown)
    assert page.open == []
    tags = {tag for tag, _ in page.seen}
    assert not tags & {"script", "link", "img", "iframe", "object"}
    assert not any(name.startswith("on") or name in ("src", "href") for _, found in page.seen for name in found)
    assert "url(" not in shown
    assert "@import" not in shown
    assert shown.count("http") == shown.count('xmlns="http://www.w3.org/2000/svg"')
    ET.fromstring(shown.replace("<!DOCTYPE html>", ""))
    identifiers = [found["id"] for _, found in page.seen if "id" in found]
    assert len(identifiers) == len(set(identifiers))


def test_html_can_be_heard() -> None:
    page = Page(rendered("html", FULL))
    assert [found.get("lang") for tag, found in page.seen if tag == "html"] == ["en"]
    assert all(found.get("scope") in ("row", "col") for tag, found in page.seen if tag == "th")
    assert sum(tag == "caption" for tag, _ in page.seen) == sum(tag == "table" for tag, _ in page.seen) == 8
    plots = [found for tag, found in page.seen if tag == "svg"]
    identifiers = {found["id"] for _, found in page.seen if "id" in found}
    assert len(plots) == 2
    assert all(found["role"] == "img" and set(str(found["aria-labelledby"]).split()) <= identifiers for found in plots)


def test_html_shows_everything() -> None:
    text = Page(rendered("html", FULL)).text
    for part in (
        "Different",
        "Blamed: HVD201 train.py (after 4 runs)",
        "1 of 2 edits were exercised by the run",
        "a mistake?",
        "fc.weight",
        "torchrun train.py",
        "stand-in",
        "seed 0, one thread",
        "75%",
        "one machine is enough",
        "look at it",
        "joins the process group",
        "world size",
    ):
        assert part in text
    hostile_text = Page(rendered("html", hostile())).text
    assert "<script>" in hostile_text
    assert "\x1b" not in hostile_text


def test_html_is_for_print_and_for_the_dark() -> None:
    shown = rendered("html", EQUAL)
    assert "@media print" in shown
    assert "prefers-color-scheme:dark" in shown


# Plots


def step(number: int, loss: float | None, apart: float | None = 0.0, migrated: float | None = None) -> StepDistance:
    return StepDistance(1, number, loss, loss if migrated is None else migrated, apart, apart, apart)


STEPS = {
    "no step": [],
    "one step": [step(1, 0.5)],
    "constant": [step(number, 3.0) for number in range(1, 9)],
    "constant zero": [step(number, 0.0) for number in range(1, 9)],
    "nothing finite": [step(number, math.nan) for number in range(1, 4)],
    "some not a number": [step(1, 1.0), step(2, math.nan), step(3, math.inf), step(4, 0.5)],
    "nothing recorded": [StepDistance(1, 1, None, None, None, None, None)],
    "huge": [step(1, 1e308), step(2, -1e308), step(3, 1e-320, 1e-320), step(4, 1.0, 1e300)],
    "tiny range": [step(1, 1.0), step(2, 1.0 + 2**-52)],
    "grows": [step(number, 1.0, 10.0 ** (number - 9), 2.0) for number in range(1, 9)],
    "infinitely apart": [step(1, 1.0, 0.0), step(2, 1.0, math.inf), step(3, 1.0, 1e-3)],
    "long": [step(number, math.sin(number / 99), 1e-7 * (number == 777)) for number in range(1, 5001)],
}


@pytest.mark.parametrize("plot", [loss_plot, distance_plot])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
def test_plots_stay_inside(plot: object, steps: list[StepDistance]) -> None:
    assert callable(plot)
    root = ET.fromstring(plot(steps, "name"))
    numbers = {"x": [], "y": []}  # type: dict[str, list[float]]
    for element in root.iter():
        for name, value in element.attrib.items():
            if re.fullmatch("x[12]?|cx", name):
                numbers["x"].append(float(value))
            elif re.fullmatch("y[12]?|cy", name):
                numbers["y"].append(float(value))
        for pair in element.attrib.get("points", "").split():
            across, height = pair.split(",")
            numbers["x"].append(float(across))
            numbers["y"].append(float(height))
    assert numbers["x"]
    assert all(0 <= each <= WIDTH for each in numbers["x"])
    assert all(0 <= each <= HEIGHT for each in numbers["y"])


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(svg).iter() if element.tag.endswith("}text")]


def curve(svg: str, style: str) -> list[list[tuple[float, float]]]:
    found = [
        each for each in ET.fromstring(svg).iter() if each.tag.endswith("}polyline") and each.get("class") == style
    ]
    pairs = [[tuple(map(float, pair.split(","))) for pair in str(each.get("points")).split()] for each in found]
    return pairs  # type: ignore[return-value]


def test_a_plot_of_nothing_says_so() -> None:
    assert texts(loss_plot(STEPS["no step"], "n")) == ["no finite loss was recorded"]
    assert texts(loss_plot(STEPS["nothing finite"], "n")) == ["no finite loss was recorded"]
    assert texts(distance_plot(STEPS["nothing recorded"], "n")) == ["nothing was recorded that could be compared"]


def test_equal_steps_have_a_place_of_their_own() -> None:
    svg = distance_plot(STEPS["constant"], "n")
    assert "equal" in texts(svg)
    assert not any(text.startswith("1e") for text in texts(svg))
    ((first, *others),) = curve(svg, "parameter")
    assert {height for _, height in others} == {first[1]}
    assert "parameters: 0 of 8 steps differ." in svg


def test_a_distance_that_grows_rises() -> None:
    svg = distance_plot(STEPS["grows"], "n")
    (points,) = curve(svg, "parameter")
    heights = [height for _, height in points]
    assert heights == sorted(heights, reverse=True)
    steps = [later - earlier for earlier, later in pairwise(heights)]
    assert max(steps) - min(steps) < 0.3
    assert {"1e-8", "1e-1"} <= set(texts(svg))


def test_a_loss_that_is_not_a_number_breaks_the_curve() -> None:
    svg = loss_plot(STEPS["some not a number"], "n")
    assert curve(svg, "original") == []
    circles = [each for each in ET.fromstring(svg).iter() if each.tag.endswith("}circle")]
    assert len(circles) == 4
    assert "4 values that are not finite are left out." in svg


def test_infinite_distances_have_a_place_of_their_own() -> None:
    assert "not finite" in texts(distance_plot(STEPS["infinitely apart"], "n"))


def test_long_curves_are_thinned_and_keep_their_peaks() -> None:
    svg = distance_plot(STEPS["long"], "n")
    (points,) = curve(svg, "parameter")
    assert len(points) <= 1000
    assert len({height for _, height in points}) == 2
    assert "1 of " in svg
    values = [(number, float(number == 4321)) for number in range(100_000)]
    kept = downsampled(values)
    assert len(kept) <= 1000
    assert (4321, 1.0) in kept
    assert kept == sorted(kept)
    assert downsampled(values[:1000]) == values[:1000]


def test_two_optimizers_have_plots_of_their_own() -> None:
    page = Page(rendered("html", hostile()))
    assert sum(tag == "svg" for tag, _ in page.seen) == 4
    assert "Optimizer 2" in page.text


def test_a_real_comparison_with_all_sections() -> None:
    original = side(Training(rates=lambda rank, number: 0.1))
    broken = with_rank(with_end(side(reduce=total).trace, 0, buffers={}), 0, saves=())
    of = report(compare(original, Side(broken)), next_steps=("go on",))
    for name in FORMATS:
        assert "go on" in rendered(name, of)
