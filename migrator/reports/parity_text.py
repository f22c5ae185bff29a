"""The report of parity for a terminal: the verdict, why, what was compared, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrator.parity.comparison import Comparison, Reason
from migrator.parity.report import EditEvidence, ParityReport
from migrator.reports.view import View, paint, printable

BOLD, DIM, RED, GREEN, YELLOW = "1", "2", "31", "32", "33"
VERDICT_COLORS = {"equal": GREEN, "within-noise": YELLOW, "different": RED, "could-not-run": RED}
LARGEST = 20
Row = tuple[str, ...]


def render(report: ParityReport, view: View) -> str:
    """``report`` as text; with ``view.quiet`` the verdict and its reasons only."""
    lines = [*_verdict(report, view), *_reasons(report.comparison, view)]
    if not view.quiet:
        lines += [
            *_section("differences", _differences(report.comparison), view),
            *_section("parameters, by first difference", _parameters(report.comparison), view),
            *_section("conditions that differ: original / migrated", _conditions(report.comparison), view),
            *_section("runs", _runs(report), view),
            *_section("edits", _edits(report), view),
            *_section(
                "changed lines", [(each.path, f"{each.executed} of {each.total} ran") for each in report.files], view
            ),
            *_section("ladder", _ladder(report), view),
            *_section("advice", [(each,) for each in report.advice], view),
            *_section("notes", [(note,) for note in report.comparison.notes], view),
            *_section("next", [(step,) for step in report.suggestions], view),
        ]
    return "".join(f"{line}\n" for line in lines)


def _verdict(report: ParityReport, view: View) -> Iterator[str]:
    comparison = report.comparison
    head, _, rest = comparison.sentence.partition(":")
    verdict = paint(head, f"{BOLD};{VERDICT_COLORS[comparison.verdict]}", view)
    yield f"{printable(report.program)}: {verdict}{':' if rest else ''}{printable(rest)}"
    for failure in comparison.failures.values():
        yield from (f"  {printable(line)}" for line in failure.traceback.splitlines())
    if growth := comparison.growth:
        yield f"  {growth}"
    if report.bisection and report.bisection.blamed:
        yield f"  blamed: {printable(', '.join(report.bisection.blamed))} (after {report.bisection.tried} runs)"
    if report.is_slower:
        yield "  " + paint(report.speed_sentence, RED, view)


def _reasons(comparison: Comparison, view: View) -> Iterator[str]:
    for reason in comparison.reasons:
        kind = paint(*_kind(reason), view)
        rule = f"{reason.rule} " if reason.rule else ""
        yield f"  {rule}{kind}  {printable(reason.sentence)}"


def _kind(reason: Reason) -> tuple[str, str]:
    return ("expected", YELLOW) if reason.is_expected else ("mistake?", RED)


def _section(title: str, rows: Sequence[Row], view: View) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield paint(title, BOLD, view)
    shown = [tuple(map(printable, row)) for row in rows[:LARGEST]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
    if len(rows) > LARGEST:
        yield f"  and {len(rows) - LARGEST} more"


def _differences(comparison: Comparison) -> list[Row]:
    return [(each.kind, each.sentence + (" (noise)" if each.is_noise else "")) for each in comparison.differences]


def _parameters(comparison: Comparison) -> list[Row]:
    rows = [
        (each.name, f"step {each.step}", f"rank {each.rank}", each.what, f"{each.first.relative:.2g}")
        for each in comparison.parameters
    ]
    return [("name", "step", "rank", "what", "relative"), *rows] if rows else []


def _conditions(comparison: Comparison) -> list[Row]:
    return [
        (each.name, f"{each.original} / {each.migrated}", each.remark or ("matters" if each.matters else ""))
        for each in comparison.conditions
        if not each.is_same
    ]


def _runs(report: ParityReport) -> list[Row]:
    ours, theirs = report.original, report.migrated
    speeds = [f"{each:.3g}" if each else "-" for each in (ours.steps_per_second, theirs.steps_per_second)]
    rows = [
        ("", "original", "migrated"),
        ("command", " ".join(ours.command), " ".join(theirs.command)),
        ("Horovod", ours.horovod, theirs.horovod),
        ("device", ours.device, theirs.device),
        ("deterministic", ", ".join(ours.deterministic) or "no", ", ".join(theirs.deterministic) or "no"),
        ("ranks", str(ours.size), str(theirs.size)),
        ("seconds", f"{ours.seconds:.1f}", f"{theirs.seconds:.1f}"),
        ("steps per second", *speeds),
    ]
    return [(name, first, "the same" if second == first and first != "-" else second) for name, first, second in rows]


def _edits(report: ParityReport) -> list[Row]:
    return [
        (f"{each.path}:{each.line}", each.rule, each.class_, _exercised(each), each.message) for each in report.edits
    ]


def _exercised(edit: EditEvidence) -> str:
    return {True: "ran", False: "did not run", None: "-"}[edit.exercised]


def _ladder(report: ParityReport) -> list[Row]:
    rows = [(str(row.size), f"{row.steps_per_second:.3g}", f"{row.efficiency:.0%}") for row in report.ladder]
    return [("ranks", "steps per second", "efficiency"), *rows] if rows else []
