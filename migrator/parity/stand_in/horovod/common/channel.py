"""Messages between ranks and the coordinator: lines of JSON over a socket."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

BYTES = 1 << 16


class Channel:
    """One end of a connection. Any thread may send; one thread receives."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._sending = threading.Lock()
        self._received = b""
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: object) -> None:
        """Send one message; raises OSError when the other end is gone."""
        line = json.dumps(message).encode() + b"\n"
        with self._sending:
            self.connection.sendall(line)

    def receive(self) -> list[Any] | None:
        """Wait for messages; None when the other end is gone."""
        while b"\n" not in self._received:
            try:
                part = self.connection.recv(BYTES)
            except OSError:
                return None
            if not part:
                return None
            self._received += part
        lines = self._received.split(b"\n")
        self._received = lines.pop()
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Close this end, and wake the threads that wait for either."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def forget(self) -> None:
        """Close the descriptor only, in a forked process: the connection is the parent's."""
        self.connection.close()
