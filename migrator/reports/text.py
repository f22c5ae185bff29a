"""The report that a person reads in a terminal: diffs, findings, what to do next, one line in sum."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from migrator.reports.view import View, held_back, paint, printable, printable_source
from migrator.result import Diagnostic, FileResult, ProgramResult, Result

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
NO_NEWLINE = "\\ No newline at end of file"

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"
CLASS_COLORS = {"exact": GREEN, "review": YELLOW, "blocked": RED, "note": DIM}
DIFF_COLORS = {"---": BOLD, "+++": BOLD, "@": CYAN, "+": GREEN, "-": RED}

WOULD_BE = {
    "migrated": "would be migrated",
    "partial": "would be a working draft: what is blocked keeps its text under a TODO",
    "blocked": "blocked: nothing of it would be written",
}
WAS = {
    "migrated": "migrated",
    "partial": "a working draft: what is blocked keeps its text under a TODO",
    "blocked": "blocked: nothing of it was written",
}


def render(result: Result, view: View) -> str:
    """``result`` as text; with ``view.quiet`` only what a person must look at."""
    lines = [*_programs(result, view), *_files(result, view)]
    if not view.quiet:
        lines.append(_summary(result, view))
    return "".join(f"{line}\n" for line in lines)


def _programs(result: Result, view: View) -> Iterator[str]:
    files = {file.path: file for file in result.changed}
    findings: dict[str, list[Diagnostic]] = defaultdict(list)
    for finding in sorted(result.findings):
        findings[finding.program].append(finding)
    for program in result.programs:
        changed = [files[path] for path in program.files if path in files]
        yield from _program(program, changed, findings.pop(program.name, []), view)
    for rest in findings.values():
        yield from _findings(rest, view)


def _program(
    program: ProgramResult, changed: Sequence[FileResult], findings: Sequence[Diagnostic], view: View
) -> Iterator[str]:
    if view.diff and not view.quiet:
        for file in changed:
            yield from _diff(file, view)
    yield from _findings(findings, view)
    if view.quiet or program.status == "clean":
        return
    wording = WAS if view.mode == "write" else WOULD_BE
    yield paint(f"{printable(program.name)}: {wording[program.status]}", BOLD, view)
    if view.mode != "check":
        for text in program.notes:
            yield f"  {printable(text)}"
        for step in program.next_steps:
            yield f"  next: {printable(step)}"
    yield ""


def _diff(file: FileResult, view: View) -> Iterator[str]:
    import difflib

    texts = file.shown or [_decode(data, file.encoding) for data in (file.before, file.after)]
    before, after = map(LINE.findall, texts)
    name = printable(file.path)
    for line in difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"):
        shown = line.rstrip("\r\n")
        yield paint(printable_source(shown), _diff_color(line), view)
        if shown == line:
            yield NO_NEWLINE


def _decode(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding, "backslashreplace")
    except LookupError:
        return data.decode("utf-8", "backslashreplace")


def _diff_color(line: str) -> str:
    return next((color for start, color in DIFF_COLORS.items() if line.startswith(start)), "")


def _findings(findings: Sequence[Diagnostic], view: View) -> Iterator[str]:
    for finding in findings:
        if not view.quiet or finding.class_ in ("review", "blocked"):
            place = f"{printable(finding.path)}:{finding.line}:{finding.column}:"
            class_ = paint(finding.class_, CLASS_COLORS[finding.class_], view)
            yield f"{place} {finding.rule} {class_}  {printable(finding.message)}"


def _files(result: Result, view: View) -> Iterator[str]:
    for file in result.files:
        if (file.status == "failed" and view.failures) or (file.status == "skipped" and not view.quiet):
            yield f"{printable(file.path)}: {file.status}: {printable(file.reason)}"


def _summary(result: Result, view: View) -> str:
    statuses = Counter(program.status for program in result.programs)
    if not result.findings and statuses.keys() <= {"clean"}:
        read = sum(file.status in ("changed", "unchanged") for file in result.files)
        return "; ".join([f"No Horovod found in {_number(read, 'file')}", *_unread(result)]) + "."
    kinds = [f"{statuses[status]} {status}" for status in ("migrated", "partial", "blocked", "clean")]
    programs = ", ".join(kind for kind in kinds if not kind.startswith("0 "))
    held = held_back(result)
    changed = sum(file.path not in held for file in result.changed)
    verb = "changed" if view.mode == "write" else "would change"
    counts = result.count_by_class()
    findings = ", ".join(f"{counts[name]} {name}" for name in ("exact", "review", "blocked"))
    parts = [
        _number(len(result.programs), "program") + (f": {programs}" if programs else ""),
        f"{_number(changed, 'file')} {verb}",
        f"{findings}, {_number(counts['note'], 'note')}",
        *_unread(result),
    ]
    return "; ".join(parts)


def _unread(result: Result) -> Iterator[str]:
    counts = Counter(file.status for file in result.files)
    for status in ("skipped", "failed"):
        if counts[status]:
            yield f"{_number(counts[status], 'file')} {status}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
