"""Ports that a run has to itself from before its ranks start until they have ended."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """A port on which a rank can listen, and that nobody else is given meanwhile.

    On Linux a socket that is bound and does not listen keeps the port from being given to others, yet whoever asks for
    it by number and sets SO_REUSEADDR, as PyTorch's store and TensorFlow's server do, may listen on it.
    """
    with _bound() as holder:
        port = int(holder.getsockname()[1])
        if sys.platform != "linux":
            holder.close()
        yield port


@contextlib.contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Several ports, held in the same way."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(held_port()) for _ in range(count)]


def _bound() -> socket.socket:
    """A socket bound to a free port of all addresses."""
    with contextlib.suppress(OSError):
        return _bind(socket.AF_INET6, "::")
    return _bind(socket.AF_INET, "0.0.0.0")


def _bind(family: socket.AddressFamily, address: str) -> socket.socket:
    holder = socket.socket(family)
    try:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        holder.bind((address, 0))
    except OSError:
        holder.close()
        raise
    return holder
