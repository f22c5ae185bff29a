"""Horovod as it is installed for an interpreter: whether it works there, and where its ranks meet."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
from collections.abc import Iterator
from typing import IO

LIMIT = 120.0

_VERSION = """
import importlib.util, sys
if importlib.util.find_spec("horovod") is None:
    sys.exit(1)
import horovod, horovod.torch
print()
print(horovod.__version__)
"""

_SERVE = """
import os, sys
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer
size = int(sys.argv[2])
server = RendezvousServer()
port = server.start()
server.init(get_host_assignments(parse_hosts(sys.argv[1]), size, size))
print(port, flush=True)
sys.stdin.read()
os._exit(0)
"""


class RendezvousError(Exception):
    """Horovod's rendezvous server could not be started."""


def find_horovod(python: str) -> str | None:
    """The version of the Horovod that an interpreter can import with its support for PyTorch."""
    try:
        asked = subprocess.run(
            [python, "-c", _VERSION], cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.splitlines()[-1] if asked.returncode == 0 else None


@contextlib.contextmanager
def rendezvous(python: str, hosts: str, size: int) -> Iterator[int]:
    """The port of a rendezvous server for ranks on ``hosts``, ``name:ranks,...``; it also ends if this process does."""
    with subprocess.Popen(
        [python, "-c", _SERVE, hosts, str(size)],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as server:
        assert server.stdout
        assert server.stderr
        try:
            if not (port := _line(server.stdout, LIMIT).strip()).isdigit():
                server.kill()
                said = server.stderr.read().decode("utf-8", "backslashreplace").strip().splitlines()
                raise RendezvousError(f"Horovod's rendezvous server did not start: {said[-1] if said else 'no answer'}")
            yield int(port)
        finally:
            server.kill()


def _line(source: IO[bytes], limit: float) -> bytes:
    """What comes first from ``source``, a short line, unless it takes longer than ``limit`` seconds."""
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        return os.read(source.fileno(), 100) if selector.select(limit) else b""
