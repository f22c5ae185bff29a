"""The report that programs read: one JSON object, whose names and meanings are a contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import get_args

from migrator.reports.view import View, held_back, printable
from migrator.result import Diagnostic, FileResult, FileStatus, ProgramResult, ProgramStatus, Result

SCHEMA = 1
HELD_BACK = "its program is blocked"


def render(result: Result, view: View) -> str:
    """``result`` as JSON; a file is ``changed`` only if it is, or would be, written."""
    import json

    held = held_back(result)
    files = [_file(file, held) for file in sorted(result.files, key=lambda file: file.path)]
    report = {
        "schema": SCHEMA,
        "findings": [_finding(finding) for finding in sorted(result.findings)],
        "files": files,
        "programs": [_program(program) for program in sorted(result.programs, key=lambda program: program.name)],
        "summary": {
            "findings": result.count_by_class(),
            "files": _count((file["status"] for file in files), get_args(FileStatus)),
            "programs": _count((program.status for program in result.programs), get_args(ProgramStatus)),
        },
    }
    return json.dumps(report, indent=2, sort_keys=True) + "\n"


def _finding(finding: Diagnostic) -> dict[str, str | int]:
    return {
        "rule": finding.rule,
        "class": finding.class_,
        "path": printable(finding.path),
        "line": finding.line,
        "column": finding.column,
        "symbol": printable(finding.symbol),
        "message": printable(finding.message),
        "program": printable(finding.program),
    }


def _file(file: FileResult, held: frozenset[str]) -> dict[str, str]:
    if file.status == "changed" and file.path in held:
        return {"path": printable(file.path), "status": "unchanged", "reason": HELD_BACK}
    return {"path": printable(file.path), "status": file.status, "reason": printable(file.reason)}


def _program(program: ProgramResult) -> dict[str, object]:
    return {
        "name": printable(program.name),
        "files": [printable(path) for path in program.files],
        "status": program.status,
        "next_steps": [printable(step) for step in program.next_steps],
        "notes": [printable(text) for text in program.notes],
    }


def _count(statuses: Iterable[str], known: Iterable[str]) -> dict[str, int]:
    counts = Counter(statuses)
    return {status: counts[status] for status in known}
