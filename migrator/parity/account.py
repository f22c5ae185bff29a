"""From the runs of a proof to what its report tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from migrator.parity.bisection import Blame
from migrator.parity.comparison import Comparison, Extent, Failure
from migrator.parity.exercised import changed_statements, count_exercised, is_exercised
from migrator.parity.hybrids import Edit
from migrator.parity.ladder import Ladder, efficiency
from migrator.parity.progress import steps_per_second
from migrator.parity.report import Bisection, EditEvidence, FileEvidence, HorovodKind, LadderRow, ParityReport, RunFacts
from migrator.parity.statements import Lines
from migrator.parity.trace import Trace
from migrator.parity.trial import Proof, Run, Trial
from migrator.result import Diagnostic

NOTHING = RunFacts((), {}, "none", "", (), 0, 0.0)
SETTINGS = ("CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED", "OMP_NUM_THREADS")
LONGEST = 60
VERSIONS = ("python", "torch", "tensorflow", "keras", "horovod", "numpy", "cuda")


def account(
    program: str,
    original: Trial,
    migrated: Trial,
    proof: Proof,
    findings: Sequence[Diagnostic] = (),
    blamed: Blame[Edit] | None = None,
    ladder: Ladder | None = None,
) -> ParityReport:
    """What a proof showed; ``findings`` are those of the migration, with paths below the tree or the working folder."""
    return ParityReport(
        program=program,
        comparison=proof.comparison,
        original=_facts_of_run(original, proof.original),
        migrated=_facts_of_run(migrated, proof.migrated),
        edits=tuple(_edits(original, proof.original, findings)),
        files=tuple(_files(original, migrated, proof.migrated)),
        bisection=Bisection(tuple(_blamed(blamed, original, migrated)), blamed.tried) if blamed else None,
        ladder=tuple(_rows(ladder)) if ladder else (),
        advice=ladder.advice if ladder else (),
    )


def not_migrated(program: str, reason: str) -> ParityReport:
    """What there is to tell where the program could not even be migrated."""
    comparison = Comparison("could-not-run", Extent(), failures={"migrated": Failure(None, reason)})
    return ParityReport(program, comparison, NOTHING, NOTHING)


def account_of_traces(original: Trace, migrated: Trace, comparison: Comparison) -> ParityReport:
    """What comparing two traces showed, of which nothing else is known."""
    ours, theirs = _facts(original), _facts(migrated)
    return ParityReport(" ".join(ours.command), comparison, ours, theirs)


def _facts_of_run(trial: Trial, run: Run) -> RunFacts:
    launch = trial.launch
    facts = _facts(run.side.trace)
    return replace(
        facts,
        command=("hvd-migrate", "run", *_options(trial), trial.name or launch.program, *launch.arguments),
        horovod=launch.horovod,
        device=facts.device or launch.device,
        size=facts.size or launch.size,
        seconds=run.outcome.seconds,
    )


def _facts(trace: Trace) -> RunFacts:
    if not trace.ranks:
        return NOTHING
    first = trace.ranks[0]
    known = first.conditions
    return RunFacts(
        command=(first.program, *first.arguments),
        versions={name: known[name] for name in VERSIONS if name in known},
        horovod=_horovod(known.get("horovod", "")),
        device=known.get("device", ""),
        deterministic=tuple(_settings(known)),
        size=first.size,
        seconds=max((rank.end.seconds for rank in trace.ranks if rank.end), default=0.0),
        steps_per_second=steps_per_second(trace),
    )


def _horovod(version: str) -> HorovodKind:
    if not version:
        return "none"
    return "stand-in" if version.endswith("+stand-in") else "real"


def _settings(conditions: Mapping[str, str]) -> Iterator[str]:
    if conditions.get("deterministic", "no") != "no":
        yield "enable_op_determinism" if "tensorflow" in conditions else "torch.use_deterministic_algorithms"
        yield from (f"{name}={conditions[name]}" for name in SETTINGS if name in conditions)


def _options(trial: Trial) -> Iterator[str]:
    yield from ("-np", str(trial.launch.size))
    if trial.launch.horovod != "none":
        yield from ("--horovod", trial.launch.horovod)
    if trial.launch.is_driver:
        yield "--driver"


def _edits(original: Trial, run: Run, findings: Sequence[Diagnostic]) -> Iterator[EditEvidence]:
    """Each finding that stands for an edit, and whether the original executed the place that was edited."""
    sources = _sources(original)
    for finding in findings:
        path = next((path for path in sources if _is_path(finding.path, path, original.files.tree)), None)
        if path is not None and finding.class_ in ("exact", "review"):
            executed = run.lines.get(path)
            ran = None if executed is None else is_exercised(sources[path], finding.line, executed)
            yield EditEvidence(finding.rule, finding.path, finding.line, finding.message, finding.class_, ran)


def _is_path(shown: str, path: PurePath, tree: Path) -> bool:
    return Path(shown).resolve() == (tree / path).resolve()


def _files(original: Trial, migrated: Trial, run: Run) -> Iterator[FileEvidence]:
    before = _sources(original)
    for path, after in _sources(migrated).items():
        executed = run.lines.get(path)
        if executed is not None:
            changed = changed_statements(before.get(path, ""), after)
            yield FileEvidence(path.as_posix(), count_exercised(changed, executed), len(changed))


def _sources(trial: Trial) -> dict[PurePath, str]:
    return {path: source.text for path, source in trial.sources().items()}


def _rows(ladder: Ladder) -> Iterator[LadderRow]:
    for rung in ladder.rungs:
        yield LadderRow(rung.size, rung.steps_per_second, efficiency(rung, ladder.rungs[0]))


def _blamed(blamed: Blame[Edit], original: Trial, migrated: Trial) -> Iterator[str]:
    before, after = _sources(original), _sources(migrated)
    for edit in blamed.edits:
        path = PurePath(edit.path)
        places = _place(before[path], edit.original), _place(after[path], edit.migrated)
        yield f"{edit.path}: {places[0]} → {places[1]}"


def _place(source: str, lines: Lines) -> str:
    """Where lines stand, and the first of them."""
    if lines.last < lines.first:
        return "nothing"
    where = f"line {lines.first}" if lines.first == lines.last else f"lines {lines.first}-{lines.last}"
    return f"{where} ({source.splitlines()[lines.first - 1].strip()[:LONGEST]})"
