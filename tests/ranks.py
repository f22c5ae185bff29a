"""Run Python source on several Gloo ranks, forked from a process that has imported torch already."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import forking
import torch
import torch.distributed
from forking import Rank

__all__ = ["Rank", "run_forked", "run_on_ranks", "traces"]

torch.optim.SGD([torch.zeros(1)])  # loads what optimizers load late, here once and not in every rank


def run_on_ranks(source: str, folder: Path, size: int = 2, limit: float = 60.0) -> list[Rank]:
    """Run ``source`` as the main program on ``size`` ranks, each in an empty folder that all of them share.

    Ranks that are still running after ``limit`` seconds are killed; the status is then -9.
    """
    work = folder / "work"
    work.mkdir(parents=True)
    port = _free_port()

    def program() -> None:
        warnings.simplefilter("default")
        exec(compile(source, "program.py", "exec"), {"__name__": "__main__"})

    environments = [{**os.environ, **_variables(rank, size, port)} for rank in range(size)]
    return run_forked(program, environments, work, folder, limit)


def run_forked(
    program: Callable[[], None], environments: Sequence[Mapping[str, str]], work: Path, output: Path, limit: float
) -> list[Rank]:
    """Call ``program`` in a process for each environment, each with one thread."""

    def with_one_thread() -> None:
        torch.set_num_threads(1)
        program()

    return forking.run_forked(with_one_thread, environments, work, output, limit)


def traces(source: str, folder: Path, size: int = 2, limit: float = 60.0) -> list[dict[str, str]]:
    """The TRACE lines of every rank; fails with the errors of all ranks that fail: one may bring others down."""
    ranks = run_on_ranks(source, folder, size, limit)
    failed = [(number, rank) for number, rank in enumerate(ranks) if rank.status]
    assert not failed, "\n".join(
        f"rank {number} ended with {rank.status}: {rank.err[-2000:]}" for number, rank in failed
    )
    return [rank.trace for rank in ranks]


def _variables(rank: int, size: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
