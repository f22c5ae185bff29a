"""One rank's side of Horovod: submits requests, and carries out what the coordinator answers.

The thread that hears the coordinator also runs the collectives, so that all ranks run them in one order.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from typing import Protocol

from horovod.common.channel import Channel
from horovod.common.coordinator import SHUTDOWN, Coordinator, Entrance, connect, pair
from horovod.common.negotiation import Request, Response
from horovod.common.placement import Placement, find_placement

DYNAMIC = "HOROVOD_DYNAMIC_PROCESS_SETS"
NOT_INITIALIZED = "Horovod has not been initialized; use hvd.init()."
SHUT_DOWN = (
    "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, "
    "allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown was caused by an "
    "exception, you should see the exception in the log before the first shutdown message."
)
DUPLICATE_NAME = (
    "Requested to allreduce, allgather, or broadcast a tensor with the same name as another tensor that is currently "
    "being processed.  If you want to request another tensor, use a different tensor name."
)
START_SECONDS = float(os.environ.get("HOROVOD_GLOO_TIMEOUT_SECONDS", 300))
END_SECONDS = 10.0


class Store(Protocol):
    """What ranks need to find one another."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> bytes: ...


class Entry:
    """A request that waits for its turn; ``number`` is what the coordinator answered."""

    def __init__(self) -> None:
        self.error = ""
        self.number = 0
        self.done = threading.Event()

    def finish(self, error: str) -> None:
        """Tell that it is done, or why it cannot be."""
        self.error = error
        self.done.set()

    @property
    def is_done(self) -> bool:
        return self.done.is_set()

    def wait(self) -> int:
        """Wait for the answer; raises RuntimeError with its error."""
        self.done.wait()
        if self.error:
            raise RuntimeError(self.error)
        return self.number


class Backend(Protocol):
    """What moves the data: one framework's collectives."""

    def open_store(self, placement: Placement, run: int) -> Store: ...

    def open_group(self, store: Store | None, number: int, members: Sequence[int], rank: int) -> None: ...

    def close_group(self, number: int) -> None: ...

    def run(self, members: Sequence[int], response: Response, entries: Sequence[Entry | None]) -> None: ...


class Controller:
    """A rank between ``init`` and ``shutdown``."""

    def __init__(self, backend: Backend, process_sets: Sequence[Sequence[int]], run: int) -> None:
        self.placement = find_placement()
        self.pid = os.getpid()
        self.is_dynamic = os.environ.get(DYNAMIC, "0") not in ("", "0")
        everyone = list(range(self.placement.size))
        process_sets = [list(ranks) for ranks in process_sets if list(ranks) != everyone]
        for ranks in process_sets:
            self.check_ranks(ranks)
        self.members: dict[int, list[int]] = dict(enumerate([everyone, *process_sets]))
        self._backend = backend
        self._entries: dict[tuple[int, str], Entry] = {}
        self._lock = threading.Lock()
        self._is_shut_down = False
        self._store = backend.open_store(self.placement, run) if self.placement.size > 1 else None
        self._coordinator: Coordinator | None = None
        self._channel = self._connect(process_sets)
        for number, ranks in self.members.items():
            self._open_group(number, ranks)
        self._thread = threading.Thread(target=self._listen, name="horovod", daemon=True)
        self._thread.start()

    def submit(self, requests: Sequence[Request], entries: Sequence[Entry]) -> None:
        """Ask for collectives that ``entries`` wait for; raises as Horovod's queue does."""
        with self._lock:
            self.check_running()
            found = {(request.process_set, request.name): entry for request, entry in zip(requests, entries)}
            if not self._entries.keys().isdisjoint(found):
                raise ValueError(DUPLICATE_NAME)
            self._entries.update(found)
        try:
            for request in requests:
                self._channel.send(request)
        except OSError:
            self._end()

    def check_ranks(self, ranks: Sequence[int]) -> None:
        """Raise ValueError if a process set would have ranks that do not exist."""
        if any(not 0 <= rank < self.placement.size for rank in ranks):
            raise ValueError(f"A process set has ranks that are not among the {self.placement.size} there are: {ranks}")

    def check_running(self) -> None:
        """Raise RuntimeError if a rank has ended, or this process is not the one that started."""
        if self._is_shut_down or self.pid != os.getpid():
            raise RuntimeError(SHUT_DOWN)

    def shut_down(self) -> None:
        """End Horovod on all ranks; what is pending fails."""
        if self.pid != os.getpid():
            return
        with contextlib.suppress(OSError):
            self._channel.send(SHUTDOWN)
        self._thread.join(END_SECONDS)
        if self._coordinator is not None:
            self._coordinator.join(END_SECONDS)
        self._channel.close()
        for number in list(self.members):
            self._backend.close_group(number)

    def forget(self) -> None:
        """Let go of connections in a process that was forked from this rank."""
        self._channel.forget()
        if self._coordinator is not None:
            self._coordinator.forget()

    def _connect(self, process_sets: Sequence[Sequence[int]]) -> Channel:
        if self.placement.rank != 0:
            assert self._store is not None
            return connect(self._store.get("address").decode(), self.placement.rank, START_SECONDS)
        others: dict[int, Channel] = {}
        if self._store is not None:
            entrance = Entrance(os.environ["MASTER_ADDR"])
            self._store.set("address", entrance.address)
            others = entrance.accept(self.placement.size - 1, START_SECONDS)
        mine, own = pair()
        self._coordinator = Coordinator({0: own, **others}, process_sets)
        self._coordinator.start()
        return mine

    def _open_group(self, number: int, ranks: Sequence[int]) -> None:
        if self.placement.rank in ranks:
            self._backend.open_group(self._store, number, ranks, self.placement.rank)

    def _listen(self) -> None:
        while (messages := self._channel.receive()) is not None:
            for message in messages:
                for response in message:
                    self._carry_out(Response(*response))
        self._end()

    def _carry_out(self, response: Response) -> None:
        with self._lock:
            entries = [self._entries.pop((response.process_set, name), None) for name in response.names]
        error = response.error
        try:
            if not error:
                self._run(response, entries)
        except Exception as problem:
            error = str(problem)
        for entry in entries:
            if entry is not None:
                entry.number = response.number
                entry.finish(error)

    def _run(self, response: Response, entries: Sequence[Entry | None]) -> None:
        if response.kind == "ADD":
            self.members[response.number] = list(response.shapes[0])
            self._open_group(response.number, response.shapes[0])
        elif response.kind == "REMOVE":
            self.members.pop(response.number, None)
            self._backend.close_group(response.number)
        elif response.kind not in ("BARRIER", "JOIN"):
            self._backend.run(self.members[response.process_set], response, entries)

    def _end(self) -> None:
        with self._lock:
            self._is_shut_down = True
            entries = list(self._entries.values())
            self._entries.clear()
        for entry in entries:
            entry.finish(SHUT_DOWN)


class Runtime:
    """The controller of this process, if Horovod is initialized; ranks count their starts alike."""

    def __init__(self) -> None:
        self.controller: Controller | None = None
        self._starts = 0
        os.register_at_fork(after_in_child=self._forget)

    def start(self, backend: Backend, process_sets: Sequence[Sequence[int]]) -> None:
        """Join the other ranks, unless that has been done."""
        if self.controller is None or self.controller.pid != os.getpid():
            self._starts += 1
            self.controller = Controller(backend, process_sets, self._starts)

    def stop(self) -> None:
        """Leave the other ranks, unless that has been done."""
        controller, self.controller = self.controller, None
        if controller is not None:
            controller.shut_down()

    @property
    def has_started(self) -> bool:
        """Whether Horovod has ever been initialized here."""
        return self._starts > 0

    def _forget(self) -> None:
        if self.controller is not None:
            self.controller.forget()


RUNTIME = Runtime()
