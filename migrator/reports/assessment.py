"""The assessment of a code base, for those who plan its migration: text, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from textwrap import fill

from migrator.assessment import Assessment, Effort, Program, Reason
from migrator.reports.parity_markdown import code, prose
from migrator.reports.view import printable

LARGEST = 25
OUTCOMES: dict[Effort, str] = {
    "none": "moves as it is",
    "review": "moves, {} to review",
    "by hand": "blocked: {} by hand",
}


@dataclass(frozen=True)
class Table:
    """Rows under a heading; columns whose names are in ``numbers`` are aligned to the right."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0


@dataclass(frozen=True)
class Section:
    """A heading with sentences, and a table or a list below."""

    title: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None
    items: tuple[str, ...] = ()


def sections(assessment: Assessment) -> Iterator[Section]:
    """The parts of the report, in the order in which they are read."""
    yield Section(f"Horovod in {', '.join(assessment.paths)}", tuple(_summary(assessment)))
    named = [program for program in assessment.programs if program.libraries]
    if named:
        yield Section(
            "Programs", ("A program is a set of files that use Horovod and import one another.",), _programs(named)
        )
    if assessment.blocked:
        sentence = "Each keeps its program, or its file, as it is until a person decides."
        yield Section("What is left to people", (sentence,), _reasons(assessment.blocked))
    if assessment.review:
        yield Section(
            "What a reviewer reads",
            ("Rewritten, with an assumption or a difference that the finding names.",),
            _reasons(assessment.review),
        )
    if assessment.symbols:
        yield Section("What is used of Horovod", (), _counts("symbol", "uses", assessment.symbols))
    beside = [*assessment.beside, *((f"lines with {name}", number) for name, number in assessment.launchers)]
    if beside:
        yield Section("Beside the code", (), _counts("kind", "number", beside))
    if assessment.unread:
        yield Section("Not read", (), None, tuple(assessment.unread[:LARGEST]))
    if assessment.advice:
        yield Section("Advice", (), None, assessment.advice)


def _summary(assessment: Assessment) -> Iterator[str]:
    programs = [program for program in assessment.programs if program.libraries]
    if not programs and not assessment.beside:
        yield f"No Horovod found in {_number(assessment.files_read, 'file')}."
        return
    if not programs:
        number = _number(sum(count for _, count in assessment.beside), "file")
        yield f"{_number(assessment.files_read, 'file')} read. No code uses Horovod; {number} beside the code name it."
        return
    lines = sum(program.lines for program in programs)
    files = sum(program.files for program in programs)
    libraries = sorted({library for program in programs for library in program.libraries})
    uses = f"{_number(len(programs), 'program')} of {_number(files, 'file')} and {_number(lines, 'line')}"
    yield f"{_number(assessment.files_read, 'file')} read. Horovod is used by {uses}: {', '.join(libraries) or 'none'}."
    free = [program for program in programs if program.effort != "by hand"]
    review = _number(sum(program.review for program in free), "place")
    yield f"{len(free)} of {len(programs)} move without work by hand; a reviewer reads {review} in them."
    left = [program for program in assessment.programs if program.effort == "by hand"]
    if left:
        places = _number(sum(program.by_hand for program in left), "place")
        reasons = _number(len(assessment.blocked), "reason")
        whole = _number(sum(bool(program.libraries) for program in left), "program")
        alone = _number(sum(not program.libraries for program in left), "file")
        yield f"{whole} and {alone} beside the code cannot move yet: {places} need a person, for {reasons}."


def _programs(programs: Sequence[Program]) -> Table:
    rows = [
        (program.name, ", ".join(program.libraries), str(program.files), f"{program.lines:,}", _outcome(program))
        for program in programs
    ]
    return Table(
        ("program", "library", "files", "lines", "outcome"), tuple(rows[: 4 * LARGEST]), len(rows[4 * LARGEST :])
    )


def _outcome(program: Program) -> str:
    number = program.by_hand if program.effort == "by hand" else program.review
    return OUTCOMES[program.effort].format(_number(number, "place"))


def _reasons(reasons: Sequence[Reason]) -> Table:
    rows = [(r.rule, r.title, str(r.places), str(len(r.programs)), r.first, r.message) for r in reasons]
    return Table(
        ("rule", "what it is about", "places", "programs", "first", "for example"),
        tuple(rows[:LARGEST]),
        len(rows[LARGEST:]),
    )


def _counts(head: str, number: str, counts: Sequence[tuple[str, int]]) -> Table:
    rows = [(name, str(count)) for name, count in counts]
    return Table((head, number), tuple(rows[:LARGEST]), len(rows[LARGEST:]))


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def render_text(assessment: Assessment) -> str:
    """``assessment`` as plain text."""
    return "\n".join(line for section in sections(assessment) for line in _text(section))


def _text(section: Section) -> Iterator[str]:
    yield printable(section.title)
    yield "=" * len(section.title)
    yield from (fill(printable(sentence), 100) for sentence in section.sentences)
    if section.table:
        yield ""
        yield from _columns(section.table)
    yield from (fill(printable(item), 100, initial_indent="- ", subsequent_indent="  ") for item in section.items)
    yield ""


def _columns(table: Table) -> Iterator[str]:
    rows = [table.head, *(tuple(_shortened(printable(cell)) for cell in row) for row in table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.head))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if table.more:
        yield f"and {table.more:,} more"


def _shortened(cell: str) -> str:
    return cell if len(cell) <= 70 else f"{cell[:69]}…"


def render_markdown(assessment: Assessment) -> str:
    """``assessment`` as GitHub's Markdown."""
    parts = [part for level, section in enumerate(sections(assessment)) for part in _markdown(section, level)]
    return "\n\n".join(parts) + "\n"


def _markdown(section: Section, level: int) -> Iterator[str]:
    yield f"{'#' if level == 0 else '##'} {prose(section.title)}"
    if section.sentences:
        yield " ".join(map(prose, section.sentences))
    if section.table:
        yield "\n".join(_rows(section.table))
        if section.table.more:
            yield f"and {section.table.more:,} more"
    if section.items:
        yield "\n".join(f"- {prose(item)}" for item in section.items)


def _rows(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(table.head)} |"
    yield "|---" * len(table.head) + "|"
    for row in table.rows:
        as_code = {"program", "symbol", "first"}
        cells = [code(cell) if head in as_code else prose(cell) for head, cell in zip(table.head, row, strict=True)]
        yield f"| {' | '.join(cells)} |"


def render_json(assessment: Assessment) -> str:
    """``assessment`` as JSON, with ``schema`` 1."""
    return json.dumps({"schema": 1, **asdict(assessment)}, indent=2, ensure_ascii=True) + "\n"


FORMATS: dict[str, Callable[[Assessment], str]] = {
    "text": render_text,
    "markdown": render_markdown,
    "json": render_json,
}
