"""What a rank that failed says about it: the traceback in what it wrote, and a line that sums it up."""

from __future__ import annotations

import re
import signal

LAST_LINES = 15
LONGEST = 200

# PyTorch's mark before each line of an uncaught exception, once for each group that was joined.
_RANK = re.compile(r"(?:\[rank(\d+)\]: ?)+")
_START = re.compile(r"Traceback \(most recent call last\):|Fatal Python error: |terminate called ")
_CONTINUED = re.compile(
    r"During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:"
    r"|terminate called "
)
_REPORT = re.compile(r"(\S+\.)?(ChildFailedError|CalledProcessError)\b|RuntimeError: Command .* failed")
_TORCHRUN = re.compile(r"^[EWI]\d{4} ", re.MULTILINE)  # its log, behind the traceback of a rank
_COMMUNICATION = re.compile(
    r"connection (was )?(likely )?(reset|closed|refused|aborted)|broken pipe|remote process|socket timeout"
    r"|failed to recv|gloo/transport|Dist(Backend|Network|Store)Error|Horovod has been shut down"
    r"|nccl(Remote|System)Error|communicator was aborted|collective operation timeout|timed out waiting",
    re.IGNORECASE,
)


def error_in(text: str) -> str:
    """The traceback that ended a program which wrote ``text``, or ``""``.

    The output of a program that starts its ranks itself holds those of several ranks: then the first that is not about
    communication with the others, which one failure brings about in all of them.
    """
    by_rank: dict[str, list[str]] = {}
    for line in text.splitlines():
        if marked := _RANK.match(line):
            by_rank.setdefault(marked[1], []).append(line[marked.end() :])
    errors = [error for lines in by_rank.values() if (error := _last_traceback(lines))]
    own = [error for error in errors if not is_communication(error)] or errors
    return own[0] if own else _last_traceback(text.splitlines())


def _last_traceback(lines: list[str]) -> str:
    """The last traceback, with those that led to it; before a launcher's report of a failure, what it reports."""
    chains: list[list[str]] = []
    is_chained = False
    for line in lines:
        if _START.match(line) and not is_chained:
            chains.append([])
        if chains and not line.startswith("Extension modules: "):
            chains[-1].append(line)
        is_chained = bool(_CONTINUED.match(line)) or (is_chained and not _START.match(line))
    errors = ["\n".join(chain).rstrip() for chain in chains]
    while len(errors) > 1 and _REPORT.match(exception_in(errors[-1])):
        errors.pop()
        errors[-1] = _TORCHRUN.split(errors[-1])[0].rstrip()
    return errors[-1] if errors else ""


def last_lines(text: str) -> str:
    """The end of what a program wrote."""
    return "\n".join(text.rstrip().splitlines()[-LAST_LINES:])


def exception_in(error: str) -> str:
    """The exception, type and first line of its text, that a traceback ends with, or ``""``."""
    lines = error.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("Traceback ")]
    after = lines[starts[-1] + 1 :] if starts else []
    return next((line[:LONGEST] for line in after if line.strip() and not line.startswith(" ")), "")


def is_communication(error: str) -> bool:
    """Whether a traceback is of an exception that the end of another rank brings about."""
    head = exception_in(error)
    return bool(head) and is_lost(error[error.rindex(head) :])


def is_lost(message: str) -> bool:
    """Whether an exception's message tells that another rank went away."""
    return bool(_COMMUNICATION.search(message))


def cause(code: int, error: str) -> str:
    """In one line, why a process ended: its exception, its exit code, or the signal that killed it."""
    if code < 0:
        why = re.search(r"^ *what\(\): +(.*)", error, re.MULTILINE)
        memory = ": perhaps memory ran out" if -code == signal.SIGKILL else ""
        return f"killed by {_signal(-code)}" + (f": {why[1][:LONGEST]}" if why else memory)
    return exception_in(error) or f"exit code {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
