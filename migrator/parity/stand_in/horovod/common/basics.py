"""Start, end and identity of a process among Horovod's."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from horovod.common.controller import DYNAMIC, NOT_INITIALIZED, RUNTIME, SHUT_DOWN, Backend, Controller, Entry
from horovod.common.negotiation import ADASUM, AVERAGE, MAX, MIN, PRODUCT, SUM, Request
from horovod.common.util import is_iterable

if TYPE_CHECKING:
    from horovod.common.process_sets import ProcessSet

UNKNOWN_SET = "Process set does not exist or has not been registered."
FAILED = "Horovod initialization failed. Please check log messages above for a more descriptive error."
NO_MPI = (
    "Horovod has not been built with MPI support. Ensure MPI is installed and "
    "reinstall Horovod with HOROVOD_WITH_MPI=1 to debug the build error."
)


class MPI:
    """In the place of mpi4py's module, for annotations."""

    class Comm:
        """A communicator."""


class HorovodBasics:
    """The part of Horovod's API that moves no tensors, as a build with Gloo alone answers."""

    Average, Sum, Adasum, Min, Max, Product = AVERAGE, SUM, ADASUM, MIN, MAX, PRODUCT

    def __init__(self, backend: Backend | None = None) -> None:
        self._backend = backend

    def init(self, comm: Iterable[int] | None = None, process_sets: Sequence[ProcessSet] | str | None = None) -> None:
        """Join the other ranks; a second call does nothing."""
        if isinstance(process_sets, str) and process_sets.lower() == "dynamic":
            os.environ[DYNAMIC] = "1"
            process_sets = None
        sets: list[ProcessSet] = list(process_sets or ())  # type: ignore[arg-type]
        if not is_iterable(comm or ()):
            raise ValueError(NO_MPI)
        atexit.register(self.shutdown)
        self._start(list(comm or ()), sets)
        self._number(sets)

    def _start(self, comm: Sequence[int], sets: Sequence[ProcessSet]) -> None:
        assert self._backend is not None
        try:
            RUNTIME.start(self._backend, _distinct(sets))
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{FAILED} {error}") from error
        if comm and sorted(comm) != list(range(self.size())):
            raise ValueError(f"{FAILED} The stand-in for Horovod takes all ranks, not a list of some.")

    def _number(self, sets: Sequence[ProcessSet]) -> None:
        from horovod.common.process_sets import _init_process_sets

        _init_process_sets(sets)
        for index, process_set in enumerate(sets):
            if process_set.process_set_id is None:
                raise ValueError(
                    f"Horovod could not be initialized because process_sets entry number {index} "
                    f"is a duplicate: {process_set}"
                )

    def shutdown(self) -> None:
        """End Horovod here, and with that on all ranks."""
        RUNTIME.stop()

    def is_initialized(self) -> bool:
        """Whether ``init`` has been called, and ``shutdown`` not since."""
        return RUNTIME.controller is not None

    def start_timeline(self, file_path: str, mark_cycles: bool = False) -> None:
        """Check what Horovod checks; no timeline is written."""
        self._controller()
        if not os.environ.get("HOROVOD_TIMELINE"):
            raise ValueError("Set HOROVOD_TIMELINE=DYNAMIC to enable dynamic timeline usage.")

    def stop_timeline(self) -> None:
        """Check what Horovod checks."""
        self._controller()

    def size(self) -> int:
        return self._controller().placement.size

    def local_size(self) -> int:
        return self._controller().placement.local_size

    def cross_size(self) -> int:
        return self._controller().placement.cross_size

    def rank(self) -> int:
        return self._controller().placement.rank

    def local_rank(self) -> int:
        return self._controller().placement.local_rank

    def cross_rank(self) -> int:
        return self._controller().placement.cross_rank

    def is_homogeneous(self) -> bool:
        """Whether every host has as many ranks, which is taken for granted."""
        return True

    def mpi_threads_supported(self) -> bool:
        raise ValueError("Horovod MPI is not enabled; Please make sure it's installed and enabled.")

    def mpi_enabled(self) -> bool:
        return False

    def mpi_built(self) -> bool:
        return False

    def gloo_enabled(self) -> bool:
        return RUNTIME.has_started

    def gloo_built(self) -> bool:
        return True

    def nccl_built(self) -> int:
        return 0

    def ddl_built(self) -> bool:
        return False

    def ccl_built(self) -> bool:
        return False

    def cuda_built(self) -> bool:
        return False

    def rocm_built(self) -> bool:
        return False

    def _controller(self) -> Controller:
        if RUNTIME.controller is None:
            raise ValueError(NOT_INITIALIZED)
        return RUNTIME.controller

    def _add_process_set_impl(self, ranks: Sequence[int]) -> int | None:
        controller = self._dynamic("adding")
        if sorted(ranks) in controller.members.values():
            return None
        controller.check_ranks(ranks)
        return _agree(controller, Request("ADD", f"add.{sorted(ranks)}", ranks=sorted(ranks)))

    def _remove_process_set_impl(self, process_set_id: int) -> int | None:
        if process_set_id == 0:
            return None
        controller = self._dynamic("removing")
        if process_set_id not in controller.members:
            return None
        return _agree(controller, Request("REMOVE", f"remove.{process_set_id}", root=process_set_id))

    def _dynamic(self, doing: str) -> Controller:
        controller = self._controller()
        if not controller.is_dynamic:
            raise ValueError(f"Set {DYNAMIC}=1 to allow {doing} process sets after Horovod initialization.")
        return controller

    def _process_set_rank(self, process_set_id: int) -> int:
        ranks = self._ranks(process_set_id)
        if self.rank() not in ranks:
            raise ValueError("Process is not part of provided process set.")
        return ranks.index(self.rank())

    def _process_set_size(self, process_set_id: int) -> int:
        return len(self._ranks(process_set_id))

    def _ranks(self, process_set_id: int) -> list[int]:
        ranks = self._controller().members.get(process_set_id)
        if ranks is None:
            raise ValueError(UNKNOWN_SET)
        return ranks

    def _get_process_set_ids_and_ranks(self) -> dict[int, list[int]]:
        return dict(self._controller().members)

    def _comm_process_set_id(self, comm: MPI.Comm) -> int:
        raise ValueError(NO_MPI)


def _distinct(sets: Sequence[ProcessSet]) -> list[list[int]]:
    """The ranks of each set, once; Horovod numbers them in this order."""
    found: list[list[int]] = []
    for process_set in sets:
        if process_set.ranks is not None and process_set.ranks not in found:
            found.append(process_set.ranks)
    return found


def _agree(controller: Controller, request: Request) -> int:
    entry = Entry()
    try:
        controller.submit([request], [entry])
        return entry.wait()
    except RuntimeError as error:
        if str(error) == SHUT_DOWN:
            raise ValueError("Horovod is shutting down.") from None
        raise
