"""The report of parity as one HTML file: no script, nothing from the network, to be read on a screen or printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from migrator.parity.comparison import Comparison, Condition, StepDistance
from migrator.parity.report import EditEvidence, ParityReport, RunFacts
from migrator.reports.parity_plot import distance_plot, loss_plot
from migrator.reports.view import View, printable

LARGEST = 500
WORDS = {"equal": "Equal", "within-noise": "Within noise", "different": "Different", "could-not-run": "Could not run"}
STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--page:#fff;--panel:#f6f8fa;
--original:#0969da;--migrated:#bc4c00;--gradient:#1a7f37;--loss:#8250df;--noise:#6e7781;
--equal:#1a7f37;--within-noise:#9a6700;--different:#cf222e;--could-not-run:#cf222e}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b3;--line:#3d444d;--page:#0d1117;--panel:#161b22;
--original:#58a6ff;--migrated:#f0883e;--gradient:#3fb950;--loss:#bc8cff;--noise:#8b949e;
--equal:#3fb950;--within-noise:#d29922;--different:#ff7b72;--could-not-run:#ff7b72}}
@media print{:root{color-scheme:light;--ink:#000;--soft:#333;--line:#999;--page:#fff;--panel:#fff}
section,tr,svg{break-inside:avoid}}
body{margin:0 auto;max-width:62rem;padding:1.5rem;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0 0 .5rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}
.verdict{border-left:.4rem solid var(--verdict);background:var(--panel);padding:.75rem 1rem}
.verdict strong{color:var(--verdict);font-size:1.2rem}
.equal{--verdict:var(--equal)}.within-noise{--verdict:var(--within-noise)}
.different{--verdict:var(--different)}.could-not-run{--verdict:var(--could-not-run)}
table{border-collapse:collapse;width:100%;font-size:.9rem}caption{text-align:left;color:var(--soft);padding:.25rem 0}
th,td{text-align:left;vertical-align:top;padding:.25rem .6rem;border-bottom:1px solid var(--line);
overflow-wrap:anywhere}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
tr.other td,tr.other th{font-weight:600}tr.alike{color:var(--soft)}
code,pre{font-family:ui-monospace,monospace;font-size:.85rem}pre{overflow-x:auto;background:var(--panel);padding:.75rem}
.scroll{overflow-x:auto}.bad{color:var(--different);font-weight:600}
svg.plot{width:100%;height:auto;font:12px system-ui,sans-serif}svg text{fill:var(--soft)}
svg .grid{stroke:var(--line);stroke-width:1}svg polyline{fill:none;stroke-width:1.8}
svg line{stroke-width:2}
svg polyline.original,svg line.original{stroke:var(--original);stroke-width:5;stroke-opacity:.45}
svg .migrated{stroke:var(--migrated)}svg polyline.migrated{stroke-dasharray:6 3}
svg .parameter{stroke:var(--original)}svg .gradient{stroke:var(--gradient)}svg polyline.gradient{stroke-dasharray:7 3}
svg .loss{stroke:var(--loss)}svg polyline.loss{stroke-dasharray:2 3}
svg .noise{stroke:var(--noise)}svg polyline.noise{stroke-dasharray:1 4}
svg circle{fill:none;stroke-width:1.5}svg circle.original{stroke:var(--original)}
"""
Cell = tuple[str, str]


def render(report: ParityReport, view: View) -> str:
    """``report`` as a page."""
    comparison = report.comparison
    title = f"Parity of {_text(report.program)}: {WORDS[comparison.verdict]}"
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"/>',
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
        f"<title>{title}</title><style>{STYLE}</style></head><body><main>",
        *_head(report),
        *_section("Loss", _plots(comparison.steps)),
        *_section("Differences", _differences(comparison)),
        *_section("Parameters", _parameters(comparison)),
        *_section("Edits", _edits(report)),
        *_section("Runs", _runs(report)),
        *_section("Conditions", _conditions(comparison.conditions)),
        *_section("Ladder", _ladder(report)),
        *_section("Notes", _list(comparison.notes)),
        *_section("Next", _list(report.suggestions)),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _text(text: str) -> str:
    return escape(printable(text))


def _head(report: ParityReport) -> Iterator[str]:
    comparison = report.comparison
    yield f"<h1>Parity of {_text(report.program)}</h1>"
    _, _, rest = comparison.sentence.partition(":")
    yield f'<div class="verdict {comparison.verdict}"><strong>{WORDS[comparison.verdict]}</strong>'
    yield f"<p>{_text(rest.strip() or comparison.sentence)}</p>"
    if comparison.growth:
        yield f"<p>{_text(comparison.growth)}</p>"
    if report.bisection and report.bisection.blamed:
        yield f"<p>Blamed: {_text(', '.join(report.bisection.blamed))} (after {report.bisection.tried} runs)</p>"
    for line in (report.coverage, report.speed_sentence):
        if line:
            yield f"<p{_bad(report.is_slower and line is report.speed_sentence)}>{_text(line)}</p>"
    yield "</div>"
    for side, failure in comparison.failures.items():
        yield f"<h2>Traceback of the {side} program</h2>" if failure.traceback else ""
        yield f"<pre>{escape(_lines(failure.traceback))}</pre>" if failure.traceback else ""
    yield from _section("Why", _reasons(comparison))


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))


def _bad(is_bad: bool) -> str:
    return ' class="bad"' if is_bad else ""


def _section(title: str, parts: Iterator[str]) -> Iterator[str]:
    content = list(parts)
    if content:
        yield f"<section><h2>{title}</h2>"
        yield from content
        yield "</section>"


def _list(items: Sequence[str]) -> Iterator[str]:
    if items:
        yield "<ul>" + "".join(f"<li>{_text(item)}</li>" for item in items) + "</ul>"


def _reasons(comparison: Comparison) -> Iterator[str]:
    if not comparison.reasons:
        return
    rows = [
        (
            ["expected" if reason.is_expected else "a mistake?", reason.rule, _text(reason.sentence)],
            "alike" if reason.is_expected else "other",
        )
        for reason in comparison.reasons
    ]
    yield from _table("What the traces say about the cause", ["", "rule", "reason"], rows)


def _table(
    caption: str, heads: Sequence[str], rows: Sequence[tuple[Sequence[str], str]], numbers: Sequence[int] = ()
) -> Iterator[str]:
    """A table whose rows have a class each; cells are HTML already."""
    if not rows:
        return
    style = [' class="number"' if place in numbers else "" for place in range(len(heads))]
    yield f'<div class="scroll"><table><caption>{escape(caption)}</caption><thead><tr>'
    yield "".join(f'<th scope="col"{style[place]}>{escape(head)}</th>' for place, head in enumerate(heads))
    yield "</tr></thead><tbody>"
    for row, kind in rows[:LARGEST]:
        first, *rest = row
        cells = "".join(f"<td{style[place]}>{cell}</td>" for place, cell in enumerate(rest, 1))
        yield f'<tr class="{kind}"><th scope="row"{style[0]}>{first}</th>{cells}</tr>'
    yield "</tbody></table></div>"
    if len(rows) > LARGEST:
        yield f"<p>and {len(rows) - LARGEST} more</p>"


def _plots(steps: Sequence[StepDistance]) -> Iterator[str]:
    numbers = sorted({each.optimizer for each in steps})
    for number in numbers:
        own = [each for each in steps if each.optimizer == number]
        if len(numbers) > 1:
            yield f"<h3>Optimizer {number}</h3>"
        yield loss_plot(own, f"loss{number}")
        yield distance_plot(own, f"distance{number}")


def _differences(comparison: Comparison) -> Iterator[str]:
    rows = [
        ([each.kind, _text(each.sentence), "noise" if each.is_noise else ""], "alike" if each.is_noise else "")
        for each in comparison.differences
    ]
    yield from _table("The first of each kind, in the order of cause and effect", ["kind", "difference", ""], rows)


def _parameters(comparison: Comparison) -> Iterator[str]:
    rows = [
        (
            [
                f"<code>{_text(each.name)}</code>",
                " x ".join(map(str, each.shape)) or "scalar",
                str(each.step),
                str(each.rank),
                each.what,
                f"{each.first.absolute:.3g}",
                f"{each.first.relative:.3g}",
                f"{each.last.relative:.3g}" if each.last else "equal",
            ],
            "",
        )
        for each in comparison.parameters
    ]
    heads = ["parameter", "shape", "step", "rank", "what", "absolute", "relative", "relative at the end"]
    yield from _table("Parameters by the step in which they first differ", heads, rows, (2, 3, 5, 6, 7))


def _edits(report: ParityReport) -> Iterator[str]:
    verdict = WORDS[report.comparison.verdict]
    rows = [
        (
            [
                f"<code>{_text(each.path)}:{each.line}</code>",
                each.rule,
                each.class_,
                _exercised(each),
                verdict if each.exercised else "",
                _text(each.message),
            ],
            "other" if each.exercised is False else "",
        )
        for each in report.edits
    ]
    heads = ["edit", "rule", "class", "exercised", "verdict of the run", "message"]
    yield from _table("Which rewritten places the evidence covers", heads, rows)
    files = [([f"<code>{_text(each.path)}</code>", str(each.executed), str(each.total)], "") for each in report.files]
    yield from _table("Changed lines that ran", ["file", "ran", "of"], files, (1, 2))


def _exercised(edit: EditEvidence) -> str:
    return {True: "yes", False: "no", None: "nothing to run"}[edit.exercised]


def _runs(report: ParityReport) -> Iterator[str]:
    ours, theirs = _run(report.original), _run(report.migrated)
    names = [
        "command",
        "Horovod",
        "device",
        "deterministic",
        "ranks",
        "seconds",
        "steps per second",
        *_versions(report),
    ]
    rows = [([escape(name), ours.get(name, ""), theirs.get(name, "")], "") for name in map(printable, names)]
    yield from _table("How both sides were run", ["", "original", "migrated"], rows)


def _versions(report: ParityReport) -> list[str]:
    return list(dict.fromkeys([*report.original.versions, *report.migrated.versions]))


def _run(run: RunFacts) -> dict[str, str]:
    versions = {printable(name): _text(version) for name, version in run.versions.items()}
    return {
        **versions,
        "command": f"<code>{_text(' '.join(run.command))}</code>",
        "Horovod": run.horovod,
        "device": _text(run.device),
        "deterministic": _text(", ".join(run.deterministic)) or "no",
        "ranks": str(run.size),
        "seconds": f"{run.seconds:.1f}",
        "steps per second": f"{run.steps_per_second:.3g}" if run.steps_per_second else "",
    }


def _conditions(conditions: Sequence[Condition]) -> Iterator[str]:
    rows = [
        (
            [_text(each.name), _text(each.original), _text(each.migrated), _text(_sameness(each))],
            "alike" if each.is_same or not each.matters else "other",
        )
        for each in conditions
    ]
    yield from _table("What both runs should have in common", ["condition", "original", "migrated", ""], rows)


def _sameness(condition: Condition) -> str:
    if condition.is_same:
        return "same"
    return condition.remark or ("differs, and matters" if condition.matters else "differs")


def _ladder(report: ParityReport) -> Iterator[str]:
    rows = [([str(row.size), f"{row.steps_per_second:.3g}", f"{row.efficiency:.0%}"], "") for row in report.ladder]
    yield from _table("Throughput by number of ranks", ["ranks", "steps per second", "efficiency"], rows, (0, 1, 2))
    yield from _list(report.advice)
