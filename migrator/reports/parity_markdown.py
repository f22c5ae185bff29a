"""The report of parity for a pull request: the verdict and its reasons; everything else folds out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from migrator.parity.comparison import Comparison, Condition, Reason
from migrator.parity.report import EditEvidence, ParityReport
from migrator.reports.view import View, printable

SIGNS = {"equal": "✅", "within-noise": "🟡", "different": "❌", "could-not-run": "🛑"}
LARGEST = 50
_SPECIAL = re.compile(r"([\\`*_\[\]#|~>])")


def render(report: ParityReport, view: View) -> str:
    """``report`` as GitHub's Markdown."""
    comparison = report.comparison
    parts = [
        f"## {SIGNS[comparison.verdict]} Parity of {code(report.program)}",
        f"**{prose(comparison.sentence)}**",
        *_tracebacks(comparison),
        _list([*map(_reason, comparison.reasons), *map(prose, _remarks(report))]),
        _fold("Differences", _differences(comparison)),
        _fold("Parameters, by first difference", _parameters(comparison)),
        _fold("Conditions", _conditions(comparison.conditions)),
        _fold("Runs", _runs(report)),
        _fold(f"Edits: {report.coverage}" if report.coverage else "Edits", _edits(report)),
        _fold("Ladder", _ladder(report)),
        _fold("Notes", _list([prose(note) for note in comparison.notes])),
        _next(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def prose(text: str) -> str:
    """Text in which nothing is Markdown, HTML or a mention of somebody."""
    shown = _SPECIAL.sub(r"\\\1", printable(text).replace("&", "&amp;").replace("<", "&lt;"))
    return shown.replace("@", "@<!-- -->")


def code(text: str) -> str:
    """Text as code, also in a table."""
    shown = printable(text).replace("|", "\\|") or " "
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence, space = "`" * (longest + 1), " " if "`" in shown else ""
    return f"{fence}{space}{shown}{space}{fence}"


def _tracebacks(comparison: Comparison) -> Iterator[str]:
    for failure in comparison.failures.values():
        if failure.traceback:
            lines = "\n".join(f"    {printable(line)}" for line in failure.traceback.splitlines())
            yield lines


def _reason(reason: Reason) -> str:
    kind = "expected" if reason.is_expected else "**a mistake?**"
    return f"{kind} {f'({reason.rule}) ' if reason.rule else ''}{prose(reason.sentence)}"


def _remarks(report: ParityReport) -> Iterator[str]:
    if growth := report.comparison.growth:
        yield growth
    if report.bisection and report.bisection.blamed:
        yield f"blamed: {', '.join(report.bisection.blamed)}, after {report.bisection.tried} runs"
    if report.speed_sentence:
        yield report.speed_sentence


def _list(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _fold(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>" if content else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    shown = [heads, ["---"] * len(heads), *rows[:LARGEST]]
    table = "\n".join(f"| {' | '.join(row)} |" for row in shown)
    return table + (f"\n\nand {len(rows) - LARGEST} more" if len(rows) > LARGEST else "")


def _differences(comparison: Comparison) -> str:
    rows = [[each.kind, prose(each.sentence), "yes" if each.is_noise else ""] for each in comparison.differences]
    return _table(["what", "where and by how much", "noise"], rows)


def _parameters(comparison: Comparison) -> str:
    rows = [
        [code(each.name), str(each.step), str(each.rank), each.what, f"{each.first.relative:.2g}"]
        for each in comparison.parameters
    ]
    return _table(["parameter", "step", "rank", "what", "relative"], rows)


def _conditions(conditions: Sequence[Condition]) -> str:
    rows = [[prose(each.name), code(each.original), code(each.migrated), _sameness(each)] for each in conditions]
    return _table(["condition", "original", "migrated", ""], rows)


def _sameness(condition: Condition) -> str:
    if condition.is_same:
        return "same"
    return condition.remark or ("**differs, and matters**" if condition.matters else "differs")


def _runs(report: ParityReport) -> str:
    ours, theirs = report.original, report.migrated
    speeds = [f"{each:.3g}" if each else "" for each in (ours.steps_per_second, theirs.steps_per_second)]
    rows = [
        ["command", code(" ".join(ours.command)), code(" ".join(theirs.command))],
        ["Horovod", ours.horovod, theirs.horovod],
        ["device", prose(ours.device), prose(theirs.device)],
        ["deterministic", prose(", ".join(ours.deterministic)), prose(", ".join(theirs.deterministic))],
        ["ranks", str(ours.size), str(theirs.size)],
        ["seconds", f"{ours.seconds:.1f}", f"{theirs.seconds:.1f}"],
        ["steps per second", *speeds],
    ]
    return _table(["", "original", "migrated"], rows)


def _edits(report: ParityReport) -> str:
    rows = [
        [code(f"{each.path}:{each.line}"), each.rule, each.class_, _exercised(each), prose(each.message)]
        for each in report.edits
    ]
    files = [[code(each.path), str(each.executed), str(each.total)] for each in report.files]
    tables = [
        _table(["edit", "rule", "class", "ran", "message"], rows),
        _table(["file", "changed lines that ran", "of"], files),
    ]
    return "\n\n".join(table for table in tables if table)


def _exercised(edit: EditEvidence) -> str:
    return {True: "yes", False: "**no**", None: ""}[edit.exercised]


def _ladder(report: ParityReport) -> str:
    rows = [[str(row.size), f"{row.steps_per_second:.3g}", f"{row.efficiency:.0%}"] for row in report.ladder]
    table = _table(["ranks", "steps per second", "efficiency"], rows)
    return "\n\n".join(part for part in (table, _list([prose(each) for each in report.advice])) if part)


def _next(report: ParityReport) -> str:
    return "**Next**\n\n" + _list([prose(step) for step in report.suggestions]) if report.suggestions else ""
