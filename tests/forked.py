"""Start a program as ``launch.start`` does, but fork its ranks from this process, which has imported PyTorch."""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path

from ranks import Rank, run_forked

from migrator.parity import recorder
from migrator.parity.failures import cause, error_in, exception_in, is_communication, last_lines
from migrator.parity.launch import Launch, prepared
from migrator.parity.supervisor import Outcome, RankOutcome, Show, Status

KILLED = -9


def start_forked(launch: Launch, output: Path, show: Show | None = None) -> Outcome:
    """Run a program of one file to its end, recorded as it asks; its ranks' output goes into files of ``output``."""
    output.mkdir()
    with prepared(launch, output) as job:
        ranks = run_forked(lambda: _train(launch), job.environments, launch.folder, output, launch.limit)
    for number, rank in enumerate(ranks):
        (output / f"rank{number}.stdout").write_text(rank.out, "utf-8")
    outcomes = tuple(_outcome(number, rank) for number, rank in enumerate(ranks))
    failed = [each for each in outcomes if each.status == "failed"]
    first = min(failed, key=_is_consequence, default=None)
    hung = any(each.status == "hung" for each in outcomes)
    seconds = max(each.seconds for each in outcomes)
    ended = "failed" if first else "timed-out" if hung else "finished"
    return Outcome(outcomes, ended, first.rank if first else None, seconds)


def _is_consequence(rank: RankOutcome) -> tuple[bool, bool, float]:
    """What sorts the rank that failed by itself before those that lost it."""
    return not exception_in(rank.error), is_communication(rank.error), rank.seconds


def _train(launch: Launch) -> None:
    """What an interpreter does with the environment that it is given, and its program."""
    faulthandler.enable()
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    own = recorder.start(recorder.Options.from_environment(os.environ), is_owner=True)
    recorder.run(own, launch.program, launch.arguments, launch.is_module)


def _outcome(number: int, rank: Rank) -> RankOutcome:
    if rank.status == 0:
        return RankOutcome(number, "finished", 0, rank.seconds)
    error = error_in(rank.err)
    status: Status = "hung" if rank.status == KILLED and not error else "failed"
    what = "still running at the limit" if status == "hung" else cause(rank.status, error)
    return RankOutcome(number, status, rank.status, rank.seconds, what, error or last_lines(rank.err))
