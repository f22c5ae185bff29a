"""The processes that belong to a run, whatever became of their parents."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Collection
from dataclasses import dataclass

TOKEN = "HVD_MIGRATE_RUN"


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    session: int
    is_dead: bool
    environment: bytes


def processes_of(token: str, sessions: Collection[int]) -> set[int]:
    """The living processes that carry ``token`` or are in one of ``sessions``, and those that descend from them.

    Where there is no /proc none is found: the process groups of the ranks are all that is known then.
    """
    everything = [process for name in _names() if (process := _process(name))]
    entry = f"{TOKEN}={token}".encode()
    found = {each.pid for each in everything if each.session in sessions or entry in each.environment.split(b"\0")}
    while more := {each.pid for each in everything if each.parent in found} - found:
        found |= more
    return found - {each.pid for each in everything if each.is_dead} - {os.getpid()}


def without_core_dump(pid: int) -> None:
    """Let a process leave no core file when it is aborted."""
    if hasattr(resource, "prlimit"):
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _names() -> list[str]:
    with contextlib.suppress(OSError):
        return [name for name in os.listdir("/proc") if name.isdigit()]
    return []


def _process(name: str) -> _Process | None:
    try:
        state, parent, _, session = _read(name, "stat").rpartition(b")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    environment = b""
    with contextlib.suppress(OSError):
        environment = _read(name, "environ")
    return _Process(int(name), int(parent), int(session), state in b"ZX", environment)


def _read(name: str, file: str) -> bytes:
    with open(f"/proc/{name}/{file}", "rb") as source:
        return source.read()
