"""The container of the new job: the workers', with what the launcher started, and what it handed on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from migrator.api import RefusalError, Span, TextEdit, blocks

from .mpi_job_command import OF_MPI, Variable, items_of
from .mpi_job_shape import Job, Replica

PROBES = ("readinessProbe", "livenessProbe", "startupProbe", "lifecycle")


@dataclass(frozen=True, eq=False)
class Start:
    """What the new containers start: the text of ``command`` and ``args``, as the launcher has it, and variables.

    New lists have their dashes ``offset`` columns to the right of their keys.
    """

    command: str
    variables: tuple[Variable, ...]
    is_tensorflow: bool
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Draft:
    """Edits, as they are found, and what they drop, for people."""

    edits: list[TextEdit] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def gone(text: str, found: blocks.Entry) -> TextEdit:
    """The edit by which a whole entry goes; the first key of a list's item leaves its place to the next."""
    start = text.rfind("\n", 0, found.span.start) + 1
    if not text[start : found.span.start].strip():
        return TextEdit(Span(start, found.span.end), "")
    following = found.span.end + len(text[found.span.end :]) - len(text[found.span.end :].lstrip(" "))
    return TextEdit(Span(found.span.start, following), "")


def container(job: Job, start: Start, name: str, draft: Draft) -> Iterator[TextEdit]:
    """The edits of the workers' container: its name, what it starts, and its variables."""
    named = job.within(job.worker, "name")
    first = blocks.entries(job.text, job.worker.container.node)[0]
    if named is None:
        yield TextEdit(Span(first.span.start, first.span.start), f"name: {name}\n" + " " * first.column)
    elif blocks.scalar(named) != name:
        yield TextEdit(blocks.value_span(named.node), name)
    env = list(_env(job, start, draft))
    new = [text for place, text in env if place is None]
    yield from (TextEdit(place, text) for place, text in env if place is not None)
    yield from _command(job, start, "".join([*_working_folder(job), *new]), draft)
    yield from _probes(job, draft)


def _command(job: Job, start: Start, more: str, draft: Draft) -> Iterator[TextEdit]:
    """The command in the place of the workers' own, else after name and image; ``more`` is an entry that follows it."""
    own = [found for key in ("command", "args") if (found := job.within(job.worker, key)) is not None]
    column, old = _column(job, job.worker), _column(job, job.launcher)
    text = blocks.moved(start.command, column - old) + more
    indent = " " * column
    if own:
        place = min(own, key=lambda each: each.span.start)
        yield from (gone(job.text, each) for each in own if each is not place)
        yield TextEdit(place.span, text)
        source = " ".join(blocks.source(job.text, span) for span in map(_value, own))
        if "sshd" not in source:
            draft.notes.append(f"the workers' own command goes: {' '.join(source.split())[:120]}")
        return
    places = [found for key in ("name", "image") if (found := job.within(job.worker, key)) is not None]
    after = max(places or blocks.entries(job.text, job.worker.container.node)[:1], key=lambda each: each.span.end)
    is_open = not job.text[: after.span.end].endswith("\n")
    yield TextEdit(Span(after.span.end, after.span.end), "\n" * is_open + indent + text)


def _value(found: blocks.Entry) -> Span:
    return blocks.value_span(found.node)


def _column(job: Job, replica: Replica) -> int:
    """Where the keys of a replica's container stand."""
    return blocks.entries(job.text, replica.container.node)[0].column


def _env(job: Job, start: Start, draft: Draft) -> Iterator[tuple[Span | None, str]]:
    """Edits of ``env``; one without a place is a new entry."""
    old, column = items_of(job, "worker"), _column(job, job.worker)
    known = {blocks.scalar(blocks.entry(job.text, item.node, "name")): item for item in old}
    new = [each for each in start.variables if not _is_there(job, each, known)]
    useless = [item for name, item in known.items() if name.startswith(OF_MPI)]
    draft.dropped.extend([name for name in known if name.startswith(OF_MPI)])
    found = job.within(job.worker, "env")
    dash = old[0].column if old else column + start.offset
    text = "".join(" " * dash + blocks.moved(whole(each.text), dash - each.column) for each in new)
    if found is None or not old:
        yield from ((None, " " * column + f"env:\n{text}") for _ in new[:1])
    elif len(useless) == len(old) and not new:
        edit = gone(job.text, found)
        yield edit.span, edit.text
    else:
        yield from ((Span(i.span.start - i.column, i.span.end), "") for i in useless)
        yield Span(old[-1].span.end, old[-1].span.end), text


def whole(text: str) -> str:
    """Lines, the last of which ends as the others do."""
    return text if text.endswith("\n") else text + "\n"


def _is_there(job: Job, variable: Variable, known: dict[str, blocks.Entry]) -> bool:
    if variable.name not in known:
        return False
    if blocks.source(job.text, known[variable.name].span).split() != variable.text.split():
        raise RefusalError(f"{variable.name} has another value for the launcher than for the workers: write one")
    return True


def _working_folder(job: Job) -> Iterator[str]:
    """Ranks start in the folder of the launcher."""
    launcher, worker = (job.within(each, "workingDir") for each in (job.launcher, job.worker))
    if launcher is None or blocks.scalar(launcher) == blocks.scalar(worker):
        return
    if worker is not None:
        raise RefusalError("launcher and workers have different working directories: write one")
    yield " " * _column(job, job.worker) + whole(blocks.source(job.text, launcher.span))


def _probes(job: Job, draft: Draft) -> Iterator[TextEdit]:
    """Probes that ask whether sshd listens would never be answered."""
    for name in PROBES:
        found = job.within(job.worker, name)
        if found is not None and any(word in blocks.source(job.text, found.span) for word in ("22", "ssh")):
            yield gone(job.text, found)
            draft.dropped.append(name)
