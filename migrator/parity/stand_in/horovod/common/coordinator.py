"""Rank 0's thread that hears all ranks and tells them what to do next."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from horovod.common.channel import Channel
from horovod.common.negotiation import Negotiation, Request, Response, fuse

NAMES_SHOWN = 6
SHUTDOWN = None


class Coordinator(threading.Thread):
    """Negotiates between the ranks until one of them shuts down or is gone."""

    def __init__(self, channels: Mapping[int, Channel], process_sets: Iterable[Sequence[int]]) -> None:
        super().__init__(name="horovod-coordinator", daemon=True)
        self._channels = dict(channels)
        self._negotiation = Negotiation(len(channels), process_sets)
        self._stalls = Stalls(self._negotiation)
        self._is_over = False

    def run(self) -> None:
        """Serve the ranks; whatever ends this ends it for all of them."""
        try:
            self._serve()
        finally:
            for channel in self._channels.values():
                channel.close()

    def forget(self) -> None:
        """Let go of connections in a forked process."""
        for channel in self._channels.values():
            channel.forget()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            for rank, channel in self._channels.items():
                selector.register(channel.connection, selectors.EVENT_READ, rank)
            while not (self._is_over or self._stalls.should_shut_down):
                ready = [self._hear(key.data) for key, _ in selector.select(self._stalls.seconds())]
                self._answer(fuse(response for responses in ready for response in responses))
                self._stalls.check()

    def _hear(self, rank: int) -> list[Response]:
        messages = self._channels[rank].receive() or [SHUTDOWN]
        self._is_over |= SHUTDOWN in messages
        requests = [Request(*message) for message in messages if message is not SHUTDOWN]
        return [response for request in requests for response in self._negotiation.submit(rank, request)]

    def _answer(self, responses: Sequence[Response]) -> None:
        messages: dict[int, list[Response]] = {}
        for response in responses:
            for rank in self._negotiation.members.get(response.process_set, ()):
                messages.setdefault(rank, []).append(response)
        for rank, message in messages.items():
            with contextlib.suppress(OSError):  # the selector will tell that it is gone
                self._channels[rank].send(message)


class Stalls:
    """Warns of names that some ranks have submitted and others have not for long."""

    def __init__(self, negotiation: Negotiation) -> None:
        self.should_shut_down = False
        self._negotiation = negotiation
        self._is_on = os.environ.get("HOROVOD_STALL_CHECK_DISABLE", "0") in ("", "0")
        self._limit = float(os.environ.get("HOROVOD_STALL_CHECK_TIME_SECONDS", 60))
        self._end = float(os.environ.get("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0))
        self._since: dict[tuple[int, str], float] = {}
        self._warned = time.monotonic()

    def seconds(self) -> float | None:
        """How long the coordinator may sleep."""
        return self._limit / 4 if self._is_on and self._negotiation.waiting else None

    def check(self) -> None:
        """Warn if it is time to; decide whether to give up."""
        now = time.monotonic()
        waiting = self._negotiation.waiting
        self._since = {key: self._since.get(key, now) for key in waiting}
        late = [key for key, start in self._since.items() if now - start > self._limit]
        if not self._is_on or not late or now - self._warned <= self._limit:
            return
        self._warned = now
        self.should_shut_down = 0 < self._limit <= self._end < now - min(self._since[key] for key in late)
        missing: dict[int, list[str]] = {}
        for key in late:
            for rank in self._negotiation.missing(key):
                missing.setdefault(rank, []).append(key[1])
        print(_warning(self._limit, missing), file=sys.stderr, flush=True)


def _warning(limit: float, missing: Mapping[int, Sequence[str]]) -> str:
    lines = [
        f"[{time.strftime('%Y-%m-%d %H:%M:%S')}: W horovod stand-in] One or more tensors were submitted to be reduced, "
        f"gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than {limit:g} "
        "seconds. This may indicate that different ranks are trying to submit different tensors or that only subset of "
        "ranks is submitting tensors, which will cause deadlock. ",
        "Missing ranks:",
    ]
    for rank, names in sorted(missing.items()):
        more = " ..." if len(names) > NAMES_SHOWN else ""
        lines.append(f"{rank}: [{', '.join(sorted(names)[:NAMES_SHOWN])}{more}]")
    return "\n".join(lines)


class Entrance:
    """Where rank 0 takes in the connections of the others; they know the token from the store."""

    def __init__(self, host: str) -> None:
        self._token = secrets.token_hex(16)
        self._host = host
        try:
            self._listener = socket.create_server((host, 0))
        except OSError:  # the address of the host is not one of its own
            self._listener = socket.create_server(("", 0))

    @property
    def address(self) -> str:
        """What the others must know."""
        return f"{self._host} {self._listener.getsockname()[1]} {self._token}"

    def accept(self, others: int, seconds: float) -> dict[int, Channel]:
        """Wait for the other ranks; raises TimeoutError."""
        found: dict[int, Channel] = {}
        end = time.monotonic() + seconds
        with self._listener:
            while len(found) < others:
                self._listener.settimeout(max(0.001, end - time.monotonic()))
                connection, _ = self._listener.accept()
                connection.settimeout(max(0.001, end - time.monotonic()))
                channel = Channel(connection)
                rank, token = (channel.receive() or [(-1, "")])[0]
                if not secrets.compare_digest(token, self._token):
                    channel.close()
                    continue
                connection.settimeout(None)
                found[rank] = channel
        return found


def connect(address: str, rank: int, seconds: float) -> Channel:
    """Connect to rank 0's entrance."""
    host, port, token = address.split(" ")
    connection = socket.create_connection((host, int(port)), timeout=seconds)
    connection.settimeout(None)
    channel = Channel(connection)
    channel.send([rank, token])
    return channel


def pair() -> tuple[Channel, Channel]:
    """Both ends of rank 0's own connection."""
    one, other = socket.socketpair()
    return Channel(one), Channel(other)
