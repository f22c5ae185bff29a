"""What a code base has of Horovod, what would become of it, and what is left to people: counted from a run's result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from migrator.registry import Registry
from migrator.result import Diagnostic, FileResult, ProgramResult, Result
from migrator.textfiles.kinds import kind_of

Effort = Literal["none", "review", "by hand"]
_LIBRARIES = {
    "horovod.torch": "PyTorch",
    "horovod.tensorflow": "TensorFlow",
    "horovod.keras": "Keras",
    "horovod.mxnet": "MXNet",
    "horovod.spark": "Spark",
    "horovod.ray": "Ray",
    "ray": "Ray",
    "sparkdl": "Spark",
    "pytorch_lightning": "Lightning",
    "lightning": "Lightning",
    "ignite": "ignite",
}
_LAUNCHERS = ("horovodrun", "mpirun", "mpiexec")


@dataclass(frozen=True)
class Reason:
    """A rule that says something of several places: how many, in which programs, and the first of them."""

    rule: str
    title: str
    places: int
    programs: tuple[str, ...]
    first: str
    message: str


@dataclass(frozen=True)
class Program:
    """A program, or a file beside the code that stands alone: its size, and what it takes to move it.

    ``review`` and ``by_hand`` are numbers of places that a person reads, and writes.
    """

    name: str
    libraries: tuple[str, ...]
    files: int
    lines: int
    exact: int
    review: int
    by_hand: int

    @property
    def effort(self) -> Effort:
        """What is left to people."""
        return "by hand" if self.by_hand else "review" if self.review else "none"


@dataclass(frozen=True)
class Assessment:
    """The whole of a code base; ``symbols`` are Horovod's with their uses, most frequent first.

    ``beside`` are files beside the code that name Horovod, by kind; ``launchers`` the lines that start ranks.
    """

    paths: tuple[str, ...]
    files_read: int
    programs: tuple[Program, ...]
    symbols: tuple[tuple[str, int], ...]
    launchers: tuple[tuple[str, int], ...]
    beside: tuple[tuple[str, int], ...]
    blocked: tuple[Reason, ...]
    review: tuple[Reason, ...]
    unread: tuple[str, ...]
    advice: tuple[str, ...]


def assess(paths: Sequence[str], result: Result, registry: Registry) -> Assessment:
    """Count what ``result``, of a run that wrote nothing, says of the code under ``paths``."""
    findings: dict[str, list[Diagnostic]] = defaultdict(list)
    for finding in result.findings:
        findings[finding.program].append(finding)
    files = {file.path: file for file in result.files}
    found = [_program(program, findings[program.name], files) for program in result.programs]
    programs = sorted((p for p in found if p), key=lambda p: (not p.libraries, -p.by_hand, -p.review, p.name))
    blocked = _reasons((f for f in result.findings if f.class_ == "blocked"), registry)
    return Assessment(
        tuple(paths),
        sum(file.status != "failed" for file in result.files),
        tuple(programs),
        _counted(symbol for symbol in _uses(result.findings) if _library(symbol)),
        _counted(f.symbol for f in result.findings if f.symbol in _LAUNCHERS),
        _counted(kind for f in result.files if (kind := _kind(f, result.findings))),
        blocked,
        _reasons((f for f in result.findings if f.class_ == "review"), registry),
        tuple(f"{file.path}: {file.reason}" for file in result.unread),
        tuple(_advice(programs, result.findings)),
    )


def _program(program: ProgramResult, findings: Sequence[Diagnostic], files: Mapping[str, FileResult]) -> Program | None:
    if not findings:
        return None
    own = [files[path] for path in program.files or (program.name,) if path in files and not files[path].is_new]
    counts = Counter(finding.class_ for finding in findings)
    libraries = dict.fromkeys(library for symbol in _uses(findings) if (library := _library(symbol)))
    lines = sum(file.before.count(b"\n") for file in own)
    return Program(
        program.name, tuple(libraries), len(own), lines, counts["exact"], counts["review"], counts["blocked"]
    )


def _uses(findings: Iterable[Diagnostic]) -> Iterator[str]:
    """The symbols of Horovod that are used, each place once."""
    places = {(finding.path, finding.line, finding.column, finding.symbol) for finding in findings}
    yield from (symbol for _, _, _, symbol in sorted(places) if symbol)


def _library(symbol: str) -> str:
    return next((name for root, name in _LIBRARIES.items() if symbol == root or symbol.startswith(f"{root}.")), "")


def _counted(items: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(items).items(), key=lambda item: (-item[1], item[0])))


def _kind(file: FileResult, findings: Sequence[Diagnostic]) -> str:
    """The kind of a file beside the code that something is said of; empty for others."""
    name = file.path.rpartition("/")[2]
    said = not file.is_new and any(finding.path == file.path for finding in findings)
    return (kind_of(name) or "") if said else ""


def _reasons(findings: Iterable[Diagnostic], registry: Registry) -> tuple[Reason, ...]:
    """What is said of many places, by rule, the most frequent first."""
    by_rule: dict[str, list[Diagnostic]] = defaultdict(list)
    for finding in findings:
        by_rule[finding.rule].append(finding)
    reasons = [_reason(rule, found, registry) for rule, found in by_rule.items()]
    return tuple(sorted(reasons, key=lambda reason: (-reason.places, reason.rule)))


def _reason(rule: str, found: Sequence[Diagnostic], registry: Registry) -> Reason:
    known = registry.rules.get(rule)
    programs = tuple(dict.fromkeys(finding.program for finding in found))
    (message, _), *_ = Counter(finding.message for finding in found).most_common(1)
    place = f"{found[0].path}:{found[0].line}"
    title = known.title.replace("``", "") if known else rule
    return Reason(rule, title[:1].upper() + title[1:].removesuffix("."), len(found), programs, place, message)


def _advice(programs: Sequence[Program], findings: Sequence[Diagnostic]) -> Iterator[str]:
    libraries = {library for program in programs for library in program.libraries}
    if not libraries:
        return
    yield (
        "Measure on one machine first. A model and data that fit one machine train there with one GPU, then with"
        " torchrun --standalone on all of its GPUs; only what is still too slow needs several machines."
    )
    if "Spark" in libraries:
        yield (
            "HorovodRunner and horovod.spark.run become TorchDistributor (PyTorch) or MirroredStrategyRunner"
            " (TensorFlow): the Spark cluster, its data and its notebooks stay as they are."
        )
    if "Ray" in libraries:
        yield "RayExecutor and HorovodTrainer become Ray Train's TorchTrainer: Ray stays the scheduler."
    if libraries & {"TensorFlow", "Keras"}:
        yield (
            "TensorFlow programs move to tf.distribute's collectives, in Keras 2 or 3. Decide on the Keras version"
            " before the migration (--keras), so that numbers are compared on the stack that will train."
        )
    if "MXNet" in libraries:
        yield "MXNet is retired upstream: its programs need another framework, not another launcher."
    if any(symbol.startswith("horovod.torch") for symbol in _uses(findings)):
        yield "--target deepspeed is worth it only for models that do not fit one GPU; DDP is simpler."
    yield (
        "Prove each program with hvd-migrate parity before its pull request is merged: it runs both sides on two"
        " ranks and names the first number that differs."
    )
