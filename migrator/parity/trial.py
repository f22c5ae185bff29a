"""Both sides of a comparison: each run in a copy of its files, recorded, and compared."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

from migrator.parity.bisection import Answer, Blame, blame
from migrator.parity.compare import Side, compare
from migrator.parity.comparison import Comparison, Failure, Verdict
from migrator.parity.exercised import executed_lines
from migrator.parity.hybrids import Edit, edits, hybrid, joined
from migrator.parity.launch import Launch, Recording, start
from migrator.parity.mirror import mirror
from migrator.parity.supervisor import Outcome, Show
from migrator.parity.trace import Trace, TraceError, read_trace
from migrator.source import Source, SourceError, decode, encode

Shows = Callable[[str, Launch], Show | None]
Start = Callable[[Launch, Path, Show | None], Outcome]
ANSWERS: Mapping[Verdict, Answer] = {
    "equal": "equal",
    "within-noise": "equal",
    "different": "different",
    "could-not-run": "unknown",
}
LEAST_LIMIT, MUCH_SLOWER = 60.0, 10.0
SLOWER, PATIENCE = 3.0, 20.0  # what a program between may take: times the original's seconds, and seconds more


@dataclass(frozen=True)
class Files:
    """The files of one side: a copy of ``tree`` in which those of ``written``, by relative path, have new contents."""

    tree: Path
    written: Mapping[PurePath, bytes] = field(default_factory=dict)

    def content(self, path: PurePath) -> bytes | None:
        """What the file at ``path`` holds, None if there is none."""
        if path in self.written:
            return self.written[path]
        place = self.tree / path
        return place.read_bytes() if place.is_file() else None

    def copy(self, folder: Path) -> None:
        """Make ``folder`` that copy. Raises OSError where a file can be neither read nor written."""
        mirror(self.tree, folder)
        for path, content in self.written.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.write_bytes(content)


@dataclass(frozen=True)
class Trial:
    """One side: its files, how it is started (in a folder of them), and those of which it matters what lines run.

    ``others`` are files of which that matters if any does, ``name`` is what its program is called outside the copy.
    """

    files: Files
    launch: Launch
    watched: tuple[PurePath, ...] = ()
    others: tuple[PurePath, ...] = ()
    name: str = ""

    def sources(self) -> dict[PurePath, Source]:
        """The watched files, but for those that are no Python to this interpreter: of them nothing more can be told."""
        contents = {path: self.files.content(path) for path in self.watched}
        read = {path: _source(path, content) for path, content in contents.items() if content is not None}
        return {path: source for path, source in read.items() if source is not None}


def _source(path: PurePath, content: bytes) -> Source | None:
    try:
        source = decode(str(path), content)
    except SourceError:
        return None
    return source if _parses(source.text) else None


@dataclass(frozen=True)
class Run:
    """What came of a trial; ``lines`` are those of each watched file that ran, None where no rank came to its end."""

    side: Side
    outcome: Outcome
    lines: Mapping[PurePath, frozenset[int] | None]


@dataclass(frozen=True)
class Proof:
    """The runs of both sides, and what comparing them came to; ``again`` is a second run of the original."""

    original: Run
    migrated: Run
    comparison: Comparison
    again: Run | None = None


def prove(
    original: Trial, migrated: Trial, results: Path, noise: float | None, shows: Shows, start: Start = start
) -> Proof:
    """Run both sides, the original twice where that can matter, and compare them.

    Traces and outputs go into folders of ``results``, which must not exist yet. A migrated program that takes more than
    ten times as long as the original, and more than a minute, is taken to hang. Raises KeyboardInterrupt when a run was
    interrupted.
    """
    first = run(original, results, "original", shows, start)
    limit = min(migrated.launch.limit, max(LEAST_LIMIT, MUCH_SLOWER * first.outcome.seconds))
    limited = replace(migrated, launch=replace(migrated.launch, limit=limit))
    second = run(limited, results, "migrated", shows, start)
    comparison = compare(first.side, second.side, None, noise)
    if noise is not None or not comparison.wants_noise:
        return Proof(first, second, comparison)
    again = run(original, results, "original again", shows, start)
    return Proof(first, second, compare(first.side, second.side, again.side), again)


def run(trial: Trial, results: Path, stage: str, shows: Shows, start: Start = start) -> Run:
    """Run a side in a copy of its files that is gone afterwards.

    Its trace and its output go into the folder of ``results`` that is called as the stage. Raises KeyboardInterrupt
    when the run was interrupted.
    """
    results = results / stage.replace(" ", "-")
    results.mkdir(parents=True)
    with TemporaryDirectory(prefix="hvd-migrate-") as name:
        folder = Path(name).resolve() / "tree"
        trial.files.copy(folder)
        launch = _recorded(trial, folder, results)
        outcome = start(launch, results / "output", shows(stage, trial.launch))
    if outcome.ended == "interrupted":
        raise KeyboardInterrupt
    trace = _trace(results / "trace")
    side = Side(trace, _output(results / "output", len(outcome.ranks)), _failure(trial, outcome, trace))
    lines = {path: executed_lines(trace, str(folder / path)) for path in (*trial.watched, *trial.others)}
    return Run(side, outcome, lines)


def with_started(trial: Trial, run: Run) -> Trial:
    """The trial with those of its other files watched of which lines ran."""
    return replace(trial, watched=(*trial.watched, *filter(run.lines.get, trial.others)), others=())


def bisect(original: Trial, migrated: Trial, results: Path, shows: Shows, start: Start = start) -> Blame[Edit]:
    """Find the edits without which the migrated program trains as the original does, both with the stand-in."""
    between = _Between(original, migrated, lambda trial, stage: run(trial, results, stage, shows, start))
    found = blame(between.groups, between.without)
    return replace(found, edits=joined(found.edits))


class _Between:
    """Programs between an original and its migration, of which it can tell whether they train as the original does."""

    def __init__(self, original: Trial, migrated: Trial, run: Callable[[Trial, str], Run]) -> None:
        self.sources = {path.as_posix(): source for path, source in migrated.sources().items()}
        before = {path.as_posix(): source.text for path, source in original.sources().items()}
        self.texts = before, {path: source.text for path, source in self.sources.items()}
        self.run = run
        self.original = replace(
            original, launch=replace(original.launch, horovod="stand-in", python=migrated.launch.python)
        )
        first = run(self.original, "original with the stand-in")
        self.expected, self.count = first.side, 0
        self.again: Side | None = None
        self.groups = edits(*self.texts) if first.side.failure is None else []
        limit = min(migrated.launch.limit, SLOWER * first.outcome.seconds + PATIENCE)
        launch = replace(migrated.launch, horovod="stand-in", is_hybrid=True, limit=limit)
        self.migrated = Trial(migrated.files, launch)

    def without(self, left_out: frozenset[Edit]) -> Answer:
        """Run the program without some edits; the first time that is all of them."""
        texts = hybrid(*self.texts, left_out)
        if not all(map(_parses, texts.values())):
            return "unknown"
        try:
            changed = {PurePath(path): encode(self.sources[path], text) for path, text in texts.items()}
        except SourceError:
            return "unknown"
        self.count += 1
        files = self.migrated.files
        written = {**files.written, **changed}
        trial = replace(self.migrated, files=replace(files, written=written))
        found = self.run(trial, f"bisection {self.count}").side
        comparison = compare(self.expected, found, self.again)
        if comparison.wants_noise and self.count == 1:
            self.again = self.run(self.original, "original with the stand-in again").side
            comparison = compare(self.expected, found, self.again)
        return ANSWERS[comparison.verdict]


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _recorded(trial: Trial, folder: Path, results: Path) -> Launch:
    tree = trial.files.tree.resolve()
    lines = results / "watched.json"
    paths = [str(place / path) for place in (folder, tree) for path in (*trial.watched, *trial.others)]
    lines.write_text(json.dumps(paths), "utf-8")
    recording = replace(trial.launch.recording or Recording(results), folder=results / "trace", lines=lines)
    environment = {**trial.launch.environment, "HVD_MIGRATE_TREE": str(tree), "HVD_MIGRATE_COPY": str(folder)}
    return replace(trial.launch, folder=folder / trial.launch.folder, recording=recording, environment=environment)


def _trace(folder: Path) -> Trace:
    try:
        return read_trace(folder)
    except TraceError:
        return Trace(())


def _output(folder: Path, ranks: int) -> tuple[tuple[str, ...], ...]:
    texts = ((folder / f"rank{rank}.stdout").read_text("utf-8", "backslashreplace") for rank in range(ranks))
    return tuple(tuple(text.splitlines()) for text in texts)


def _failure(trial: Trial, outcome: Outcome, trace: Trace) -> Failure | None:
    if outcome.ended != "finished":
        errors = "\n".join(rank.error for rank in outcome.culprits)
        return Failure(outcome.first_failure, outcome.reason, errors)
    if not trace.ranks:
        return Failure(None, "it ended well, but no rank of it used PyTorch or TensorFlow: nothing was recorded")
    places = (trial.files.tree.resolve() / path for path in (*trial.watched, *trial.others))
    if strange := [place for place in places if executed_lines(trace, str(place))]:
        return Failure(None, f"it imports {strange[0]} from the working folder instead of its copy")
    still = [rank.rank for rank in trace.ranks if rank.end and rank.end.uses_horovod]
    return Failure(still[0], "it still imports horovod") if still and trial.launch.horovod == "none" else None
