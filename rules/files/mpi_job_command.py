"""The command of an MPIJob's launcher, and what the pods of the new job run in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from migrator.api import Command, RefusalError, Span, TextEdit, Word, blocks, reworded

from ..launch.line import HERE, Line, Translation, in_pod, launcher_of, read_line
from ..launch.options import ELASTIC
from .mpi_job_shape import Job

OF_MPI = ("HOROVOD_", "OMPI_", "I_MPI_", "HYDRA_", "PMIX_", "PRTE_", "MPICH_")


@dataclass(frozen=True, eq=False)
class Launch:
    """Where an MPIJob says what to start: the entries of its command, the words of the line, and the line, read.

    ``command`` is where the line stands in a script for a shell, None where it is the list itself.
    """

    entries: tuple[blocks.Entry, ...]
    words: tuple[Word, ...]
    line: Line
    command: Command | None = None

    @property
    def position(self) -> int:
        """Which word is the launcher."""
        return next(n for n, word in enumerate(self.words) if launcher_of(word))


def find_launch(job: Job, commands: Sequence[Command]) -> Launch | None:
    """The line that starts the ranks, None where the manifest has none; ``commands`` are those of its scripts."""
    found = (job.within(job.launcher, key) for key in ("command", "args"))
    entries = tuple(entry for entry in found if entry is not None and blocks.is_sequence(entry.node))
    nodes = [node for entry in entries for node in entry.node.value]
    if not all(map(blocks.is_scalar, nodes)):
        raise RefusalError("a word of its command is no text: put it in quotes")
    words = tuple(blocks.word_of(job.text, node) for node in nodes)
    if any(launcher_of(word) for word in words):
        return Launch(entries, words, read_line(words[next(n for n, w in enumerate(words) if launcher_of(w)) :]))
    spans = [entry.span for entry in entries]
    lines = [
        command
        for command in commands
        if any(span.start <= command.span.start < span.end for span in spans)
        and any(launcher_of(word) for word in command.words)
    ]
    if len(lines) > 1:
        raise RefusalError("its launcher starts several programs, one after the other: make a job of each")
    if not lines:
        return None
    words = lines[0].words
    start = next(n for n, word in enumerate(words) if launcher_of(word))
    return Launch(entries, words, read_line(words[start:]), lines[0])


def check_ranks(job: Job, line: Line) -> None:
    """Raise RefusalError unless the line starts one rank in every slot."""
    if any(line.values(name) for name in ELASTIC):
        least, most = (line.value(name) for name in ("least", "most"))
        limits = ", ".join(f"{k}: {v.value}" for k, v in (("minReplicas", least), ("maxReplicas", most)) if v)
        raise RefusalError(
            f"the number of ranks may change: write elasticPolicy: {{{limits}, rdzvBackend: c10d, maxRestarts: 10}}, "
            "in pods, not ranks, and pytorchReplicaSpecs with Worker only, which run torchrun; no discovery script"
        )
    _check_hosts(job, line)
    number, per_host = line.value("np"), line.value("per_host")
    if per_host is not None and per_host.value != job.slots:
        raise RefusalError(f"it starts {per_host.value} ranks on each worker, which have {job.slots} slots")
    if number is None or (per_host is not None and not (job.slots + job.workers).isdigit()):
        return
    if not (number.value.isdigit() and job.slots.isdigit() and job.workers.isdigit()):
        raise RefusalError("a template or a variable decides how many ranks there are: write the replicas by hand")
    total = int(job.slots) * int(job.workers)
    if int(number.value) != total:
        raise RefusalError(
            f"it starts {number.value} ranks where its workers have {job.workers} x {job.slots} = {total} slots, and "
            "the new job starts one in each: make the numbers agree"
        )


def _check_hosts(job: Job, line: Line) -> None:
    named = line.value("hosts")
    hosts = named.value.split(",") if named is not None else []
    if any(host.partition(":")[0] in HERE for host in hosts):
        raise RefusalError(
            f"it starts its ranks on the launcher itself, by {named.value if named else ''}: write a Job"
        )
    if hosts and str(len(hosts)) != job.workers:
        raise RefusalError(f"it names {len(hosts)} hosts, and there are {job.workers} workers")


def text_of_command(job: Job, launch: Launch, launcher: str) -> tuple[str, Translation]:
    """The command of the new container, from its key on, indented as the launcher's is."""
    translation = in_pod(launch.line, launcher)
    if launch.command is not None:
        setting: list[Word | str] = ["env"] if launch.position and translation.environment else []
        before: list[Word | str] = [*launch.words[: launch.position], *setting, *translation.environment]
        new: list[Word | str] = [*before, *translation.words]
        edits = list(reworded(job.text, launch.command, new))
    else:
        new = [*launch.words[: launch.position], *translation.words]
        edits = [edit for entry in launch.entries for edit in _listed(job.text, entry, launch, new)]
    texts = {entry.key: blocks.edited(job.text, entry.span, edits) for entry in launch.entries}
    kept = [entry for entry in launch.entries if texts[entry.key]]
    indent = " " * kept[0].column
    first = texts[kept[0].key]
    if kept[0].key == "args" and len(launch.entries) > 1:
        first = "command" + first[len(blocks.source(job.text, blocks.key_span(job.text, kept[0]))) :]
    return indent.join([_ended(first), *(_ended(texts[entry.key]) for entry in kept[1:])]), translation


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _listed(text: str, entry: blocks.Entry, launch: Launch, new: Sequence[Word | str]) -> Iterator[TextEdit]:
    """The edits that make a list of words one of those in ``new``; a list without any goes."""
    own = {node.start_mark.index: node for node in entry.node.value}
    launching = launch.words[launch.position]
    words = [word for word in new if isinstance(word, str) or word.span.start in own]
    if launching.span.start not in own:
        words = [word for word in words if isinstance(word, Word)]
    if not words:
        yield TextEdit(entry.span, "")
    elif blocks.is_flow(entry.node):
        yield _flow(text, entry, words)
    else:
        yield from _block(text, entry, words, launching)


def _flow(text: str, entry: blocks.Entry, words: Sequence[Word | str]) -> TextEdit:
    nodes = entry.node.value
    span = blocks.value_span(entry.node)
    first, last = (blocks.value_span(node) for node in (nodes[0], nodes[-1]))
    opening, closing = text[span.start : first.start], text[last.end : span.end]
    gap = text[first.end : blocks.value_span(nodes[1]).start] if len(nodes) > 1 else ", "
    new = [_written(text, word, text[first.start] in "\"'") for word in words]
    return TextEdit(span, opening + (", " if "#" in gap else gap).join(new) + closing)


def _written(text: str, word: Word | str, is_quoted: bool) -> str:
    if isinstance(word, Word):
        return text[word.span.start : word.span.end]
    return f'"{word}"' if is_quoted else blocks.quoted(word)


def _block(text: str, entry: blocks.Entry, words: Sequence[Word | str], launching: Word) -> Iterator[TextEdit]:
    kept = {word.span.start for word in words if isinstance(word, Word)}
    new = [word for word in words if isinstance(word, str)]
    for item in blocks.entries(text, entry.node):
        if item.node.start_mark.index == launching.span.start and new:
            lines = ("\n" + " " * item.column).join(f"- {blocks.quoted(word)}" for word in new)
            yield TextEdit(item.span, lines + "\n")
        elif item.node.start_mark.index not in kept:
            yield TextEdit(Span(item.span.start - item.column, item.span.end), "")


@dataclass(frozen=True)
class Variable:
    """A variable of the new container: an item of a list, written as the column of its dash says."""

    name: str
    text: str
    column: int


def variables(job: Job, launch: Launch, translation: Translation) -> tuple[list[Variable], list[str]]:
    """The variables that the ranks were given by the launcher, and the names of those that they were not."""
    given = [word.value for (word,) in launch.line.values("set") if "=" not in word.value]
    is_all = launch.line.launcher == "horovodrun" or _implementation(job) in ("Intel", "MPICH")
    found, left = list[Variable](), list[str]()
    for item in items_of(job, "launcher"):
        name = blocks.scalar(blocks.entry(job.text, item.node, "name"))
        if name.startswith(OF_MPI) or not (is_all or name in given):
            left.append(name)
        else:
            found.append(Variable(name, job.text[item.span.start : item.span.end], item.column))
    for pair in translation.environment if launch.command is None else ():
        name, _, value = pair.partition("=")
        found.append(Variable(name, f"- name: {name}\n  value: {_string(value)}\n", 0))
    return found, left


def _string(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def offset_of(job: Job, launch: Launch) -> int:
    """How far the dashes of the launcher's lists stand to the right of their keys."""
    for entry in launch.entries:
        if items := blocks.entries(job.text, entry.node):
            return items[0].column - entry.column
    return 0


def items_of(job: Job, which: str) -> tuple[blocks.Entry, ...]:
    """The items of ``env`` of a container."""
    found = job.within(job.launcher if which == "launcher" else job.worker, "env")
    if found is None:
        return ()
    items = blocks.entries(job.text, found.node)
    if found.node.value and not items:
        raise RefusalError("the variables of a container are written in one line: write them line by line")
    return items


def _implementation(job: Job) -> str:
    return blocks.scalar(job.entry("mpiImplementation"))
