"""How ranks find one another and exchange bytes, without a framework's help."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from horovod.common.channel import Channel
from horovod.common.controller import START_SECONDS, Store
from horovod.common.coordinator import Entrance, connect

LENGTH = struct.Struct("<Q")
RETRY_SECONDS = 0.02

Combine = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]


class SharedValues:
    """Keys and values that rank 0 keeps for all ranks at MASTER_ADDR and MASTER_PORT, as long as its process lasts."""

    def __init__(self, rank: int) -> None:
        self._values: dict[str, str] = {}
        self._changed = threading.Condition()
        self._asking = threading.Lock()
        self._channel: Channel | None = None
        if "MASTER_ADDR" not in os.environ or "MASTER_PORT" not in os.environ:
            raise RuntimeError("MASTER_ADDR and MASTER_PORT do not say where the ranks meet.")
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if rank == 0:
            listener = socket.create_server(address)
            threading.Thread(target=self._serve, args=(listener,), name="horovod-values", daemon=True).start()
        else:
            self._channel = Channel(_connect_to(address))

    def set(self, key: str, value: str) -> None:
        """Tell all ranks a value."""
        if self._channel is not None:
            self._ask(key, value)
            return
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        """Wait for a value."""
        if self._channel is not None:
            return self._ask(key, None).encode()
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._values, START_SECONDS):
                raise RuntimeError(f"No rank has said {key} within {START_SECONDS:g} seconds.")
            return self._values[key].encode()

    def _ask(self, key: str, value: str | None) -> str:
        assert self._channel is not None
        with self._asking:
            self._channel.send([key, value])
            answers = self._channel.receive()
        if not answers or answers[0] is None:
            raise RuntimeError("Rank 0 is gone.")
        return str(answers[0])

    def _serve(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._answer, args=(Channel(connection),), daemon=True).start()

    def _answer(self, channel: Channel) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            while messages := channel.receive():
                for key, value in messages:
                    if value is not None:
                        self.set(key, value)
                    channel.send(self.get(key).decode())
        channel.close()


class Prefixed:
    """A part of the shared values."""

    def __init__(self, values: Store, prefix: str) -> None:
        self._values = values
        self._prefix = prefix

    def set(self, key: str, value: str) -> None:
        self._values.set(f"{self._prefix}.{key}", value)

    def get(self, key: str) -> bytes:
        return self._values.get(f"{self._prefix}.{key}")


class Star:
    """Connections in a process set: all members give the first one theirs, and get what it makes of it."""

    def __init__(self, store: Store, place: int, size: int) -> None:
        self._channels: list[Channel] = []
        if place:
            self._channels = [connect(store.get("address").decode(), place, START_SECONDS)]
            self._channels[0].receive()
        elif size > 1:
            entrance = Entrance(os.environ["MASTER_ADDR"])
            store.set("address", entrance.address)
            others = entrance.accept(size - 1, START_SECONDS)
            self._channels = [others[number] for number in sorted(others)]
            for channel in self._channels:
                channel.send("welcome")
        self._is_center = place == 0

    def exchange(self, mine: np.ndarray, combine: Combine) -> np.ndarray:
        """Give ``mine``; what ``combine`` makes of all members' bytes, for each of them, comes back."""
        if not self._is_center:
            _send(self._channels[0].connection, mine)
            return _receive(self._channels[0].connection)
        answers = combine([mine, *(_receive(channel.connection) for channel in self._channels)])
        for channel, answer in zip(self._channels, answers[1:]):
            _send(channel.connection, answer)
        return answers[0]

    def close(self) -> None:
        """Close all connections."""
        for channel in self._channels:
            channel.close()


def _connect_to(address: tuple[str, int]) -> socket.socket:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            connection = socket.create_connection(address, timeout=START_SECONDS)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(RETRY_SECONDS)
        else:
            connection.settimeout(None)
            return connection


def _send(connection: socket.socket, data: np.ndarray) -> None:
    connection.sendall(LENGTH.pack(data.nbytes))
    if data.nbytes:
        connection.sendall(data.data)


def _receive(connection: socket.socket) -> np.ndarray:
    [length] = LENGTH.unpack(_read(connection, LENGTH.size))
    return np.frombuffer(_read(connection, length), np.uint8)


def _read(connection: socket.socket, length: int) -> bytearray:
    found = bytearray(length)
    missing = memoryview(found)
    while missing:
        count = connection.recv_into(missing)
        if not count:
            raise ConnectionError("The connection to another rank was lost.")
        missing = missing[count:]
    return found
