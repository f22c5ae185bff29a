"""Files beside the code migrated, each with the programs that it belongs to."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from migrator import notices
from migrator.api import RefusalError, TextFinding
from migrator.config import Settings, is_selected
from migrator.files import display
from migrator.layout import Span, line_starts
from migrator.registry import FileAnswer, Registry, Rule, load_rules
from migrator.result import Diagnostic, FileResult, ProgramResult
from migrator.source import Source, SourceError, decode_text, encode
from migrator.textfiles.document import Document, apply
from migrator.textfiles.kinds import is_shell_script, kind_of_path
from migrator.textfiles.reading import reader
from migrator.textfiles.surroundings import Moved, Surroundings

LAUNCHER = "launch_workers.py"
_IGNORE = re.compile(r"hvd:\s*ignore\[([^\]]*)\]")
_NAMED = re.compile(r"horovodrun|horovod|\bhvd\.|HorovodRunner|OMPI_COMM_WORLD_", re.IGNORECASE)


@dataclass(frozen=True)
class Joined:
    """The findings and files of all documents, and the programs of the run with those that joined them."""

    findings: tuple[Diagnostic, ...]
    files: tuple[FileResult, ...]
    programs: tuple[ProgramResult, ...]


@dataclass(frozen=True)
class _Answer:
    rule: str
    finding: TextFinding


@dataclass(frozen=True)
class _Outcome:
    findings: tuple[Diagnostic, ...]
    files: tuple[FileResult, ...]
    programs: tuple[Moved, ...] = ()


def migrate_documents(
    documents: Iterable[tuple[Path, bytes]],
    surroundings: Surroundings,
    programs: Sequence[ProgramResult],
    settings: Settings,
) -> Joined:
    """Migrate files beside the code: one that belongs to one migrated program joins it, others stand alone."""
    by_name = {program.name: program for program in programs}
    findings: list[Diagnostic] = []
    made: dict[str, FileResult] = {}
    for file, data in documents:
        outcome = _migrate(file, data, surroundings, settings)
        files = [result for result in outcome.files if result.path not in made]
        made |= {result.path: result for result in files}
        program = _program(outcome, by_name)
        if outcome.findings:
            paths = dict.fromkeys((*program.files, *(result.path for result in files)))
            by_name[program.name] = replace(program, files=tuple(paths))
        findings += (replace(finding, program=program.name) for finding in outcome.findings)
    return Joined(tuple(findings), tuple(made.values()), tuple(by_name.values()))


def _program(outcome: _Outcome, by_name: Mapping[str, ProgramResult]) -> ProgramResult:
    """The program that a file is part of: the one that it belongs to, or one of its own."""
    document = outcome.files[0]
    blocked = any(finding.class_ == "blocked" for finding in outcome.findings)
    names = [program.name for program in outcome.programs]
    if len(names) == 1 and names[0] in by_name and not blocked:
        program = by_name[names[0]]
        moves = program.status == "clean" and document.status == "changed"
        return replace(program, status="migrated") if moves else program
    if blocked:
        return ProgramResult(document.path, (), "blocked")
    return ProgramResult(document.path, (), "migrated" if document.status == "changed" else "clean")


def _migrate(file: Path, data: bytes, surroundings: Surroundings, settings: Settings) -> _Outcome:
    """Migrate one file; never raises for what is in it."""
    path, kind = display(file), kind_of_path(file) or ("shell" if is_shell_script(data) else None)
    try:
        source = decode_text(path, data)
        document = Document(path, file, kind or "prose", source.text, reader(kind or "prose"))
        answers = list(_ask(document, surroundings, load_rules(), settings))
        text = apply(source.text, (edit for answer in answers for edit in answer.finding.edits))
        if text != source.text and document.parts.problem is None and (problem := document.read(text).problem):
            raise ValueError(f"the result could not be read: {problem[1]}")
        after = encode(source, text)
    except SourceError as error:
        return _left(path, data, error.line, error.reason)
    except (ValueError, RecursionError) as error:
        return _left(path, data, 1, str(error))
    if problem := document.parts.problem:
        answers.append(_Answer(notices.UNREADABLE, TextFinding(Span(problem[0], problem[0]), "review", problem[1])))
    return _outcome(document, source, answers, after)


def _ask(document: Document, surroundings: Surroundings, registry: Registry, settings: Settings) -> Iterator[_Answer]:
    """What the rules say; where none says anything of a file that names Horovod, that it does."""
    said: list[Span] = []
    for rule, answer in registry.of_files:
        for finding in _answers(rule, answer, document, surroundings):
            said += (finding.span, *(edit.span for edit in finding.edits))
            if not is_selected(settings, rule.id):
                message = f"stays: {rule.id} is not selected"
                finding = TextFinding(finding.span, "blocked", message)
            yield _Answer(rule.id, finding)
    lines = [document.line_of(Span(span.start, max(span.start, span.end - 1))) for span in said]
    yield from _left_over(document, lines)


def _left_over(document: Document, lines: Sequence[Span]) -> Iterator[_Answer]:
    """The first place that names Horovod and of which nothing was said, and every one that starts ranks.

    Where commands are read, the rule for them says what there is to say of the launcher.
    """
    is_said = False
    for match in _NAMED.finditer(document.text):
        starts = match[0].lower() == "horovodrun" and document.kind not in ("markdown", "prose")
        is_read = starts and bool(document.parts.commands)
        if not is_read and (starts or not is_said) and _is_left(document, match.start(), lines):
            is_said = True
            message = "the text names Horovod: it is left as it is"
            yield _Answer(notices.OTHER_KIND, TextFinding(Span(*match.span()), "review" if starts else "note", message))


def _is_left(document: Document, place: int, lines: Sequence[Span]) -> bool:
    """Whether nothing was said of the line of a place; of comments, only where nothing was said at all."""
    start = document.text.rfind("\n", 0, place) + 1
    is_comment = document.text[start:place].lstrip().startswith("#")
    return not lines or not (is_comment or any(line.start <= place < line.end for line in lines))


def _answers(rule: Rule, answer: FileAnswer, document: Document, surroundings: Surroundings) -> Iterable[TextFinding]:
    try:
        return list(answer(document, surroundings))
    except RefusalError as refusal:
        message = str(refusal)
    except Exception as error:
        message = f"the rule failed: {type(error).__name__}: {error}"
    return [TextFinding(Span(0, 0), "blocked", message)]


def _outcome(document: Document, source: Source, answers: Sequence[_Answer], after: bytes) -> _Outcome:
    starts = line_starts(document.text)
    programs = tuple(dict.fromkeys(program for answer in answers for program in answer.finding.programs))
    blocked = any(answer.finding.class_ == "blocked" for answer in answers)
    waiting = [program.name for program in programs if not program.is_migrated]
    taken = tuple(_taken(answers))
    blocked = blocked or bool(taken)
    found = [_diagnostic(document, starts, answer) for answer in (*answers, *taken)]
    findings = [finding for finding in found if not _is_ignored(document, starts, finding)]
    if waiting and after != source.data:
        findings = [_held(finding, waiting) for finding in findings]
    changed = after != source.data and not waiting
    new = after if changed else source.data
    result = FileResult(document.path, "changed" if changed else "unchanged", "", source.data, new, source.encoding)
    placed = [_placed(folder) for folder in _folders(answers) if changed and not blocked and not _has(folder)]
    return _Outcome(tuple(findings), (result, *placed), programs)


def _diagnostic(document: Document, starts: Sequence[int], answer: _Answer) -> Diagnostic:
    finding = answer.finding
    line = bisect_right(starts, finding.span.start)
    column = finding.span.start - starts[line - 1] + 1
    return Diagnostic(document.path, line, column, answer.rule, finding.class_, finding.symbol, finding.message, "")


def _held(finding: Diagnostic, waiting: Sequence[str]) -> Diagnostic:
    if finding.class_ == "note":
        return finding
    message = f"stays while {', '.join(waiting)} is blocked; otherwise: {finding.message}"
    return replace(finding, class_="review" if finding.class_ == "exact" else finding.class_, message=message)


def _is_ignored(document: Document, starts: Sequence[int], finding: Diagnostic) -> bool:
    line = document.text[starts[finding.line - 1] :].partition("\n")[0]
    match = _IGNORE.search(line)
    return match is not None and finding.rule in (part.strip() for part in match[1].split(","))


def _folders(answers: Iterable[_Answer]) -> list[Path]:
    return list(dict.fromkeys(folder for answer in answers for folder in answer.finding.launchers))


def _taken(answers: Sequence[_Answer]) -> Iterator[_Answer]:
    """Findings where the launcher's name is taken by another file."""
    for answer in answers:
        for folder in answer.finding.launchers:
            if _has(folder) and (folder / LAUNCHER).read_bytes() != _launcher():
                message = f"{display(folder / LAUNCHER)} is there already, and is another file than the launcher"
                yield _Answer(answer.rule, TextFinding(answer.finding.span, "blocked", message))


def _has(folder: Path) -> bool:
    return (folder / LAUNCHER).is_file()


def _launcher() -> bytes:
    return files("migrator.launchers").joinpath(LAUNCHER).read_bytes()


def _placed(folder: Path) -> FileResult:
    return FileResult(display(folder / LAUNCHER), "changed", "", b"", _launcher(), is_new=True)


def _left(path: str, data: bytes, line: int, reason: str) -> _Outcome:
    finding = Diagnostic(path, line, 1, notices.UNREADABLE, "blocked", "", f"the file is left as it is: {reason}", path)
    return _Outcome((finding,), (FileResult(path, "failed", f"line {line}: {reason}", data, data),))
