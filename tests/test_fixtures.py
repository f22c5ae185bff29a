"""Every case under fixtures/: what it becomes, what is said of it, and that a second run finds nothing to do."""

from __future__ import annotations

import sys
from pathlib import Path

import libcst
import pytest
from update_fixtures import ROOT, cases, files, run, settings_of

from migrator.registry import load_rules
from migrator.source import decode
from migrator.verify import comments

CASES = [case.relative_to(ROOT).as_posix() for case in cases()]
UNREADABLE_BEFORE_3_12 = "robustness/not_python_3_11_syntax"


def marks(name: str) -> list[pytest.MarkDecorator]:
    wrong = ROOT / name / "wrong.txt"
    if wrong.exists():
        return [pytest.mark.xfail(strict=True, reason=wrong.read_text("utf-8").strip())]
    if name == UNREADABLE_BEFORE_3_12:
        return [pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the message names Python 3.11")]
    return []


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in CASES])
def test_fixture(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = ROOT / name
    before, settings = files(case, "before"), settings_of(case)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    outcome = run(before, settings, first)
    assert outcome.written == files(case, "after")
    assert outcome.findings == (case / "findings.txt").read_text("utf-8")
    if not outcome.written:
        return
    monkeypatch.chdir(second)
    again = run(outcome.written, settings, second)
    assert not again.written
    assert {p.name for p in again.result.blocked} <= {p.name for p in outcome.result.blocked}
    assert not again.result.unread
    for path, data in outcome.written.items():
        if not path.endswith(".py"):
            continue
        old, new = decode(path, before.get(path, b"")).text, decode(path, data).text
        lost = comments(old) - comments(new) if not path.endswith("setup.py") else set()
        assert all(comment.startswith(("# type:", "# MAGIC")) for comment in lost)
        libcst.parse_module(new)


def test_every_rule_has_a_fixture() -> None:
    told = "".join((ROOT / name / "findings.txt").read_text("utf-8") for name in CASES)
    torch = [id for id, rule in load_rules().rules.items() if any(s.startswith("horovod") for s in rule.symbols)]
    assert [id for id in torch if f" {id} " not in told] == []


def test_every_strategy_can_be_asked_for() -> None:
    asked = {settings_of(ROOT / name).gradients for name in CASES}
    assert asked == {"auto", "ddp", "optimizer", "scope"}
