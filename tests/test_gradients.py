"""Every way in which gradients are reduced, against real Horovod: the strategy that is taken, and the numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from horovod_traces.gradients import CASES, Case, Difference, Strategy
from ranks import traces
from update_fixtures import Outcome, run

from migrator.config import Gradients, Settings

HOROVOD = json.loads((Path(__file__).parent / "horovod_traces" / "gradients.json").read_text("utf-8"))["cases"]
WAYS: tuple[tuple[str, Strategy], ...] = (("DistributedOptimizer → DDP", "ddp"), ("at the optimizer, by ", "optimizer"))


def modes(case: Case) -> Iterator[tuple[Gradients, Strategy]]:
    """The settings to try, and the strategy that each must lead to."""
    yield "auto", case.auto
    if case.auto != "optimizer":
        yield "optimizer", "refused" if case.auto == "refused" else "optimizer"
    if case.ddp is not None:
        yield "ddp", case.ddp


def runs() -> Iterator[object]:
    for case in CASES:
        for mode, strategy in modes(case):
            yield pytest.param(case, mode, strategy, id=f"{case.name}-{mode}")


def strategy_of(outcome: Outcome) -> Strategy:
    if not outcome.written:
        return "refused"
    [strategy] = {strategy for words, strategy in WAYS if words in outcome.findings}
    return strategy


def difference(case: Case, strategy: Strategy) -> Difference | None:
    return case.by_ddp if strategy == "ddp" else case.by_optimizer


@pytest.mark.ranks
@pytest.mark.parametrize(("case", "mode", "strategy"), list(runs()))
def test_case(case: Case, mode: Gradients, strategy: Strategy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    outcome = run({"program.py": case.source.encode()}, Settings(gradients=mode, jobs=1), tmp_path / "in")
    assert strategy_of(outcome) == strategy, outcome.findings
    if mode == "auto":
        assert case.because in outcome.findings
    if strategy == "refused":
        return
    found = traces(outcome.written["program.py"].decode(), tmp_path / "ranks", case.ranks)
    differs = difference(case, strategy)
    if not case.unstable:
        expected = [HOROVOD[case.name][str(rank)] for rank in range(case.ranks)]
        assert [ours.keys() for ours in found] == [theirs.keys() for theirs in expected]
        keys = {k for ours, theirs in zip(found, expected, strict=True) for k in theirs if ours[k] != theirs[k]}
        assert keys == set(differs.keys if differs else ())
    if differs:
        assert differs.because in outcome.findings
    if differs or case.unstable:
        assert len({ours["weights"] for ours in found}) == 1


AT_THE_OPTIMIZER = [case for case in CASES if case.auto == "optimizer"]


@pytest.mark.parametrize("case", AT_THE_OPTIMIZER, ids=lambda case: case.name)
def test_auto_is_what_optimizer_asks_for(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    for mode in ("auto", "optimizer"):
        (tmp_path / mode).mkdir()
        monkeypatch.chdir(tmp_path / mode)
        settings = Settings(gradients=mode, jobs=1)
        written.append(run({"program.py": case.source.encode()}, settings, tmp_path / mode).written)
    assert written[0] == written[1]


def test_recordings_and_cases_are_the_same() -> None:
    assert HOROVOD.keys() == {case.name for case in CASES}
    assert {name for name, recorded in HOROVOD.items() if isinstance(recorded, list)} == {
        case.name for case in CASES if case.unstable
    }


def test_horovod_is_no_reference_where_that_is_said() -> None:
    for case in CASES:
        if case.unstable:
            first, second = HOROVOD[case.name]
            failed = isinstance(first, str) or isinstance(second, str)
            assert failed or first != second or first["0"]["weights"] != first["1"]["weights"], case.name
