"""What the recorder wrote about one run, read back; the format is docs/trace.md.

A trace is a folder with a file ``rank<N>.jsonl`` for each rank. A file that ends early, because its rank crashed or was
killed, is read up to the last whole line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1
_FILE = re.compile(r"rank(\d+)\.jsonl")


class TraceError(Exception):
    """A folder that holds no trace, or one of a format that this version does not read."""


@dataclass(frozen=True)
class Tensor:
    """A tensor's fingerprint: a digest of its bytes, its Euclidean norm, and a few elements, evenly spaced."""

    digest: str
    norm: float
    sample: tuple[float, ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter of an optimizer, by the name that its module gives it, else ``<group>.<index>``."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Optimizer:
    """An optimizer at its first step: its parameters in the order of its groups, and their values before it."""

    number: int
    type: str
    parameters: tuple[Parameter, ...]
    start: tuple[Tensor, ...]


@dataclass(frozen=True)
class Collective:
    """One reduction or exchange as the program meant it; ``purpose`` is gradients, state or value."""

    kind: str
    reduction: str
    dtype: str
    elements: int
    purpose: str
    is_exact: bool


@dataclass(frozen=True)
class Step:
    """One step of an optimizer: what it was given and what it made of it; ``seconds`` since the rank started.

    ``is_initial`` marks the step with zero gradients that ``broadcast_optimizer_state`` takes to create the state;
    ``before`` has the parameters as such a step found them, and is empty for others.
    Gradients and parameters are in the order of the optimizer's parameters; both are empty where the recorder left the
    step out, and a gradient is None where there was none.
    """

    number: int
    optimizer: int
    is_initial: bool
    losses: tuple[float, ...]
    rates: tuple[float, ...]
    batch: str
    gradients: tuple[Tensor | None, ...]
    parameters: tuple[Tensor, ...]
    collectives: tuple[Collective, ...]
    backwards: int
    seconds: float
    before: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class Save:
    """A call of ``torch.save``: the file's name, the number of tensors, digests of their keys and of their values."""

    file: str
    tensors: int
    keys: str
    values: str
    sample: tuple[str, ...]


@dataclass(frozen=True)
class End:
    """How a rank ended: ``error`` is empty, or the exception's type and text."""

    error: str
    seconds: float
    buffers: Mapping[str, Tensor]
    collectives: tuple[Collective, ...]
    lines: Mapping[str, frozenset[int]]
    uses_horovod: bool


@dataclass(frozen=True)
class Rank:
    """One rank's trace; ``end`` is None for a rank that crashed or was killed."""

    rank: int
    size: int
    program: str
    arguments: tuple[str, ...]
    conditions: Mapping[str, str]
    random: Mapping[str, str] = field(default_factory=dict)
    optimizers: tuple[Optimizer, ...] = ()
    steps: tuple[Step, ...] = ()
    saves: tuple[Save, ...] = ()
    end: End | None = None


@dataclass(frozen=True)
class Trace:
    """The ranks of one run, in order."""

    ranks: tuple[Rank, ...]


def read_trace(folder: Path) -> Trace:
    """Read the trace in ``folder``.

    Raises TraceError if the folder holds none, or a line is none of this format.
    """
    files = {int(match[1]): path for path in _files(folder) if (match := _FILE.fullmatch(path.name))}
    if not files:
        raise TraceError(f"{folder}: no trace, that is, no file rank0.jsonl")
    return Trace(tuple(_rank(files[number]) for number in sorted(files)))


def _files(folder: Path) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise TraceError(f"{folder}: {error.strerror}") from error


def _rank(path: Path) -> Rank:
    events = list(_events(path))
    if not events or events[0]["event"] != "start":
        raise TraceError(f"{path}: holds no trace")
    start = events[0]
    if start["format"] != FORMAT:
        raise TraceError(f"{path}: format {start['format']}, and this version reads format {FORMAT}")
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_kind.setdefault(event["event"], []).append(event)
    try:
        return Rank(
            rank=start["rank"],
            size=start["size"],
            program=start["program"],
            arguments=tuple(start["arguments"]),
            conditions=start["conditions"],
            random=next((event["states"] for event in by_kind.get("random", [])), {}),
            optimizers=tuple(_optimizer(event) for event in by_kind.get("optimizer", [])),
            steps=tuple(_step(event) for event in by_kind.get("step", [])),
            saves=tuple(_save(event) for event in by_kind.get("save", [])),
            end=next((_end(event) for event in by_kind.get("end", [])), None),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{path}: not in the format of a trace ({type(error).__name__}: {error})") from error


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file; what follows the last line end was cut off."""
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    for number, line in enumerate(whole.split(b"\n"), 1) if whole else ():
        try:
            event = json.loads(line)
            event["event"]
        except (ValueError, TypeError, KeyError) as error:
            raise TraceError(f"{path}:{number}: not a line of a trace") from error
        yield event


def _optimizer(event: Mapping[str, Any]) -> Optimizer:
    parameters = [Parameter(name, tuple(shape), dtype) for name, shape, dtype in event["parameters"]]
    return Optimizer(event["number"], event["type"], tuple(parameters), tuple(map(_tensor, event["start"])))


def _step(event: Mapping[str, Any]) -> Step:
    return Step(
        number=event["number"],
        optimizer=event["optimizer"],
        is_initial=event["initial"],
        losses=tuple(map(float, event["losses"])),
        rates=tuple(map(float, event["rates"])),
        batch=event["batch"],
        gradients=tuple(None if each is None else _tensor(each) for each in event["gradients"]),
        parameters=tuple(map(_tensor, event["parameters"])),
        collectives=tuple(map(_collective, event["collectives"])),
        backwards=event["backwards"],
        seconds=event["seconds"],
        before=tuple(map(_tensor, event.get("before", ()))),
    )


def _save(event: Mapping[str, Any]) -> Save:
    return Save(event["file"], event["tensors"], event["keys"], event["values"], tuple(event["sample"]))


def _end(event: Mapping[str, Any]) -> End:
    return End(
        error=event["error"],
        seconds=event["seconds"],
        buffers={name: _tensor(each) for name, each in event["buffers"].items()},
        collectives=tuple(map(_collective, event["collectives"])),
        lines={path: frozenset(lines) for path, lines in event["lines"].items()},
        uses_horovod=event["horovod"],
    )


def _tensor(entry: Sequence[Any]) -> Tensor:
    digest, norm, *sample = entry
    return Tensor(digest, float(norm), tuple(map(float, sample)))


def _collective(entry: Sequence[Any]) -> Collective:
    kind, reduction, dtype, elements, purpose, is_exact = entry
    return Collective(kind, reduction, dtype, elements, purpose, bool(is_exact))
