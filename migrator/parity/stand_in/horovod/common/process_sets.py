"""Sets of ranks that run collectives among themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horovod.common.basics import MPI, HorovodBasics
from horovod.common.util import is_iterable

NO_RANKS = "ProcessSet should be initialized with a list of process ranks or an mpi4py Comm object"
NO_MPI = (
    "Horovod has not been built with MPI support. Ensure MPI is installed and "
    "reinstall Horovod with HOROVOD_WITH_MPI=1 to debug the build error."
)


class ProcessSet:
    """Some of the ranks, once ``init`` or ``add_process_set`` has been given it."""

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm: MPI.Comm | None = None

    def __init__(self, ranks_or_comm: Sequence[int] | MPI.Comm) -> None:
        if not is_iterable(ranks_or_comm):
            raise ValueError(f"Apparently you tried to build a ProcessSet from an MPI communicator, but {NO_MPI}")
        ranks = sorted(ranks_or_comm)
        if any(not isinstance(rank, int) for rank in ranks):
            raise ValueError(NO_RANKS)
        self.ranks = ranks

    def _invalidate(self) -> None:
        self.process_set_id = None

    def size(self) -> int | None:
        """The number of ranks in it; None before it is registered."""
        return None if self.process_set_id is None else _setting.basics._process_set_size(self.process_set_id)

    def rank(self) -> int | None:
        """The place of this process in it; None before it is registered."""
        return None if self.process_set_id is None else _setting.basics._process_set_rank(self.process_set_id)

    def included(self) -> bool | None:
        """Whether this process is in it."""
        return None if self.ranks is None else _setting.basics.rank() in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"


class _Setting:
    """The basics of the framework that was loaded last."""

    basics: Any = HorovodBasics()


_setting = _Setting()
global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


def _setup(basics: HorovodBasics) -> None:
    _setting.basics = basics


def _init_process_sets(process_sets: Sequence[ProcessSet]) -> None:
    """Give numbers to the sets that ``init`` was given; those that are there twice lose theirs."""
    ranks = _setting.basics._get_process_set_ids_and_ranks()
    numbers = {tuple(members): number for number, members in ranks.items()}
    seen = {0}
    for process_set in process_sets:
        process_set.process_set_id = numbers[tuple(process_set.ranks or ())]
        if process_set.process_set_id in seen:
            process_set._invalidate()
        else:
            seen.add(process_set.process_set_id)
    if global_process_set.ranks != ranks[0]:
        global_process_set.ranks = ranks[0]


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Register a set after ``init``: all ranks do, and HOROVOD_DYNAMIC_PROCESS_SETS is 1."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    assert process_set.ranks is not None
    number = _setting.basics._add_process_set_impl(process_set.ranks)
    if number is None:
        raise ValueError(f"Attempted to add a duplicate process set: {process_set}")
    process_set.process_set_id = number
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Forget a set, on all ranks; returns whether it was there."""
    number = process_set.process_set_id
    if not number:
        return False
    process_set._invalidate()
    return _setting.basics._remove_process_set_impl(number) is not None
