"""Horovod as it is installed for an interpreter: whether it works there, and where its ranks meet."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

LIMIT = 120.0
CHILD = Path(__file__).parent / "child"

_VERSION = """
import importlib, importlib.util, sys
if importlib.util.find_spec("horovod") is None:
    sys.exit(1)
importlib.import_module(sys.argv[1])
print()
print(sys.modules["horovod"].__version__)
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


def part_in(source: bytes) -> str:
    """The part of Horovod that a program uses, PyTorch's if its text tells of none."""
    is_keras = b"horovod.torch" not in source and re.search(rb"horovod(\.|\s+import\s+)(tensorflow|keras)\b", source)
    return "horovod.tensorflow" if is_keras else "horovod.torch"


def find_horovod(python: str, part: str = "horovod.torch") -> str | None:
    """The version of the Horovod of which an interpreter can import this part."""
    try:
        asked = subprocess.run(
            [python, "-c", _VERSION, part],
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(CHILD), os.environ.get("PYTHONPATH", "")])},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
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
