"""Processes that a test should not leave behind."""

from __future__ import annotations

import os
from pathlib import Path

MARK = "MARK_OF_TEST"


def marked(mark: str) -> list[str]:
    """The command lines of living processes that carry ``mark`` in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and folder.name != str(os.getpid()):
            try:
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and mark.encode() in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


def alive(process: int) -> bool:
    """Whether a process of that number lives, and has not just ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
