"""Programs migrated one after the other or side by side, each with a stack for any nesting that Python accepts."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from migrator.config import Settings
from migrator.reading import Input
from migrator.result import FileResult
from migrator.transform import Outcome, migrate_program

_STACK = 512 * 1024 * 1024
_WORTH_A_PROCESS = 100_000


def run_all(jobs: Sequence[list[Input]], settings: Settings, progress: Callable[[int, int], None]) -> list[Outcome]:
    """The outcomes of programs in the order of ``jobs``, by as many processes as the settings and sizes suggest."""
    size = sum(len(given.data) for job in jobs for given in job)
    workers = min(settings.jobs or os.cpu_count() or 1, len(jobs), 1 + size // _WORTH_A_PROCESS)
    if workers > 1:
        return _side_by_side(jobs, settings, progress, workers)
    outcomes: list[Outcome] = []
    for job in jobs:
        outcomes.append(run_one(job, settings))
        progress(len(outcomes), len(jobs))
    return outcomes


def run_one(job: list[Input], settings: Settings) -> Outcome:
    """Migrate one program in a thread of its own; its trees are collected afterwards, not while they are built."""
    made: list[Outcome | BaseException] = []

    def run() -> None:
        try:
            made.append(migrate_program(job, settings))
        except BaseException as error:
            made.append(error)

    before, limit, collects = threading.stack_size(_STACK), sys.getrecursionlimit(), gc.isenabled()
    sys.setrecursionlimit(100_000)
    gc.disable()
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
        sys.setrecursionlimit(limit)
        if collects:
            gc.enable()
    if isinstance(made[0], Exception):
        return _broken(job, f"internal error: {type(made[0]).__name__}: {made[0]}")
    if isinstance(made[0], BaseException):
        raise made[0]
    return made[0]


def _broken(job: Sequence[Input], reason: str) -> Outcome:
    """The outcome of a program on which this tool itself failed: its files stay, other programs go on."""
    return Outcome((), tuple(FileResult(given.path, "failed", reason, given.data, given.data) for given in job))


def _side_by_side(
    jobs: Sequence[list[Input]], settings: Settings, progress: Callable[[int, int], None], workers: int
) -> list[Outcome]:
    """The outcomes in the order of ``jobs``; largest programs start first."""
    outcomes: dict[int, Outcome] = {}
    order = sorted(range(len(jobs)), key=lambda n: -sum(len(given.data) for given in jobs[n]))
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        waiting: dict[Future[Outcome], int] = {pool.submit(run_one, jobs[n], settings): n for n in order}
        for future in as_completed(waiting):
            try:
                outcomes[waiting[future]] = future.result()
            except BrokenProcessPool:
                continue
            progress(len(outcomes), len(jobs))
    return [outcomes[n] if n in outcomes else _alone(jobs[n], settings) for n in range(len(jobs))]


def _alone(job: list[Input], settings: Settings) -> Outcome:
    """A program that may have brought its worker down, tried again in a process of its own."""
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
            return pool.submit(run_one, job, settings).result()
    except BrokenProcessPool:
        return _broken(job, "the parser crashed on a file of this program")
