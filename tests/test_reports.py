"""The reports: one result model, rendered for people and for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest

from migrator.reports import FORMATS
from migrator.reports.view import View, printable
from migrator.result import Class, Diagnostic, FileResult, FileStatus, ProgramResult, ProgramStatus, Result

BEFORE = b"import horovod.torch as hvd\nhvd.init()\n"
AFTER = b"import torch.distributed as dist\nhvd.init()\n"
HOSTILE = "a\x1b[31m\n\udcff\u202e.py"

EXACT = Diagnostic("train.py", 2, 1, "HVD100", "exact", "horovod.torch.init", "joins the group", "train.py")
REVIEW = Diagnostic("train.py", 1, 1, "HVD201", "review", "horovod.torch.rank", "look at this", "train.py")
BLOCKED = Diagnostic("odd.py", 7, 3, "HVD900", "blocked", "horovod.torch.odd", "no rule knows it", "odd.py")

RESULT = Result(
    findings=(EXACT, BLOCKED, REVIEW),
    files=(
        FileResult("train.py", "changed", before=BEFORE, after=AFTER),
        FileResult("odd.py", "changed", before=BEFORE, after=AFTER),
        FileResult("plain.py", "unchanged"),
        FileResult("big.py", "skipped", "larger than 5 MB"),
        FileResult("gone.py", "failed", "does not exist"),
    ),
    programs=(
        ProgramResult("train.py", ("train.py",), "migrated", ("torchrun train.py",), ("written for 2",)),
        ProgramResult("odd.py", ("odd.py",), "blocked"),
    ),
)


def text(result: Result = RESULT, **view: object) -> str:
    return FORMATS["text"](result, View(**view))  # type: ignore[arg-type]


def parsed(result: Result) -> dict[str, object]:
    report = json.loads(FORMATS["json"](result, View()))
    assert isinstance(report, dict)
    return report


def test_text_preview() -> None:
    assert text() == (
        "--- a/train.py\n"
        "+++ b/train.py\n"
        "@@ -1,2 +1,2 @@\n"
        "-import horovod.torch as hvd\n"
        "+import torch.distributed as dist\n"
        " hvd.init()\n"
        "train.py:1:1: HVD201 review  look at this\n"
        "train.py:2:1: HVD100 exact  joins the group\n"
        "train.py: would be migrated\n"
        "  written for 2\n"
        "  next: torchrun train.py\n"
        "\n"
        "--- a/odd.py\n"
        "+++ b/odd.py\n"
        "@@ -1,2 +1,2 @@\n"
        "-import horovod.torch as hvd\n"
        "+import torch.distributed as dist\n"
        " hvd.init()\n"
        "odd.py:7:3: HVD900 blocked  no rule knows it\n"
        "odd.py: blocked: nothing of it would be written\n"
        "\n"
        "big.py: skipped: larger than 5 MB\n"
        "gone.py: failed: does not exist\n"
        "2 programs: 1 migrated, 1 blocked; 1 file would change; 1 exact, 1 review, 1 blocked, 0 notes; "
        "1 file skipped; 1 file failed\n"
    )


def test_text_write() -> None:
    assert text(mode="write", diff=False, failures=False) == (
        "train.py:1:1: HVD201 review  look at this\n"
        "train.py:2:1: HVD100 exact  joins the group\n"
        "train.py: migrated\n"
        "  written for 2\n"
        "  next: torchrun train.py\n"
        "\n"
        "odd.py:7:3: HVD900 blocked  no rule knows it\n"
        "odd.py: blocked: nothing of it was written\n"
        "\n"
        "big.py: skipped: larger than 5 MB\n"
        "2 programs: 1 migrated, 1 blocked; 1 file changed; 1 exact, 1 review, 1 blocked, 0 notes; "
        "1 file skipped; 1 file failed\n"
    )


def test_text_check_has_no_next_steps() -> None:
    shown = text(mode="check", diff=False)
    assert "train.py: would be migrated\n\n" in shown
    assert "next:" not in shown


def test_text_quiet_is_what_a_person_must_look_at() -> None:
    assert text(quiet=True) == (
        "train.py:1:1: HVD201 review  look at this\n"
        "odd.py:7:3: HVD900 blocked  no rule knows it\n"
        "gone.py: failed: does not exist\n"
    )


def test_text_partial() -> None:
    draft = Result(programs=(ProgramResult("p", (), "partial"),))
    assert text(draft).startswith("p: would be a working draft")
    assert text(draft, mode="write").startswith("p: a working draft")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ((), "No Horovod found in 0 files.\n"),
        ((FileResult("a.py", "unchanged"),), "No Horovod found in 1 file.\n"),
        (
            (FileResult("a.py", "unchanged"), FileResult("b.py", "unchanged"), FileResult("c.py", "failed", "why")),
            "c.py: failed: why\nNo Horovod found in 2 files; 1 file failed.\n",
        ),
    ],
)
def test_text_no_horovod(files: tuple[FileResult, ...], expected: str) -> None:
    assert text(Result(files=files)) == expected


def test_text_does_not_claim_no_horovod_where_something_was_found() -> None:
    note = replace(EXACT, class_="note")
    assert text(Result(findings=(note,))).endswith(
        "0 programs; 0 files would change; 0 exact, 0 review, 0 blocked, 1 note\n"
    )
    assert "No Horovod" not in text(Result(programs=(ProgramResult("p", (), "blocked"),)))


def test_text_findings_outside_programs_are_shown() -> None:
    assert "HVD100 exact" in text(Result(findings=(replace(EXACT, program=""),)))


def test_text_color() -> None:
    shown = text(color=True)
    assert "\x1b[31m-import horovod.torch as hvd\x1b[0m\n" in shown
    assert "\x1b[32m+import torch.distributed as dist\x1b[0m\n" in shown
    assert "HVD900 \x1b[31mblocked\x1b[0m" in shown
    assert "\x1b" not in text()


@pytest.mark.parametrize(
    ("before", "after", "encoding", "expected"),
    [
        (b"a\r\nb\r\n", b"a\r\nc\r\n", "utf-8", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        (b"a\rb\r", b"a\rc\r", "utf-8", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        (b"a", b"b", "utf-8", "-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"),
        (b"\xe9\n", b"x\n", "latin-1", "-é\n+x\n"),
        (b"\xe9\n", b"x\n", "utf-8", "-\\xe9\n+x\n"),
        (b"a\n", b"b\n", "no-such-codec", "-a\n+b\n"),
        ("\t# \x1b[2J\u202e\x0c\n".encode(), b"x\n", "utf-8", "-\t# \\x1b[2J\\u202e\\x0c\n+x\n"),
    ],
)
def test_diff_of_any_bytes(before: bytes, after: bytes, encoding: str, expected: str) -> None:
    file = FileResult("f.py", "changed", before=before, after=after, encoding=encoding)
    shown = text(Result(files=(file,), programs=(ProgramResult("f.py", ("f.py",), "migrated"),)))
    assert expected in shown


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("class_", get_args(Class))
def test_hostile_names(name: str, class_: Class) -> None:
    result = Result(
        findings=(Diagnostic(HOSTILE, 1, 1, "HVD1", class_, HOSTILE, HOSTILE, HOSTILE),),
        files=(
            FileResult(HOSTILE, "changed", before=b"a\n", after=b"b\n"),
            FileResult(HOSTILE + "2", "failed", HOSTILE),
        ),
        programs=(ProgramResult(HOSTILE, (HOSTILE,), "migrated", (HOSTILE,)),),
    )
    shown = FORMATS[name](result, View())
    shown.encode("utf-8")
    assert all(line.isprintable() for line in shown.split("\n"))
    assert printable(HOSTILE) == "a\\x1b[31m\\n\\xff\\u202e.py"
    assert printable(HOSTILE) in shown.replace("\\\\", "\\")


def test_printable_keeps_what_can_be_shown() -> None:
    assert printable("übung 1.py") == "übung 1.py"
    assert printable("\ud800") == "\\ud800"


def test_json_contract() -> None:
    report = parsed(RESULT)
    assert report == {
        "schema": 1,
        "findings": [
            {
                "rule": finding.rule,
                "class": finding.class_,
                "path": finding.path,
                "line": finding.line,
                "column": finding.column,
                "symbol": finding.symbol,
                "message": finding.message,
                "program": finding.program,
            }
            for finding in (BLOCKED, REVIEW, EXACT)
        ],
        "files": [
            {"path": "big.py", "status": "skipped", "reason": "larger than 5 MB"},
            {"path": "gone.py", "status": "failed", "reason": "does not exist"},
            {"path": "odd.py", "status": "unchanged", "reason": "its program is blocked"},
            {"path": "plain.py", "status": "unchanged", "reason": ""},
            {"path": "train.py", "status": "changed", "reason": ""},
        ],
        "programs": [
            {"name": "odd.py", "files": ["odd.py"], "status": "blocked", "next_steps": [], "notes": []},
            {
                "name": "train.py",
                "files": ["train.py"],
                "status": "migrated",
                "next_steps": ["torchrun train.py"],
                "notes": ["written for 2"],
            },
        ],
        "summary": {
            "findings": {"exact": 1, "review": 1, "blocked": 1, "note": 0},
            "files": {"changed": 1, "unchanged": 2, "skipped": 1, "failed": 1},
            "programs": {"migrated": 1, "blocked": 1, "partial": 0, "clean": 0},
        },
    }


def test_json_of_nothing_has_every_key() -> None:
    report = parsed(Result())
    assert report["findings"] == report["files"] == report["programs"] == []
    assert report["summary"] == {
        "findings": dict.fromkeys(get_args(Class), 0),
        "files": dict.fromkeys(get_args(FileStatus), 0),
        "programs": dict.fromkeys(get_args(ProgramStatus), 0),
    }


def test_json_does_not_depend_on_order() -> None:
    turned = Result(RESULT.findings[::-1], RESULT.files[::-1], RESULT.programs[::-1])
    assert FORMATS["json"](turned, View()) == FORMATS["json"](RESULT, View())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("result", [RESULT, Result()])
def test_every_format_ends_with_one_newline(name: str, result: Result) -> None:
    shown = FORMATS[name](result, View())
    assert shown.endswith("\n")
    assert not shown.endswith("\n\n")
