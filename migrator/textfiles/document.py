"""A file beside the code as the rules for files see it: its text, and the parts that its reader found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from migrator.layout import Span
from migrator.textfiles.kinds import Kind

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

    from migrator.textfiles.dependencies import DependencyList
    from migrator.textfiles.rows import Row
    from migrator.textfiles.syntax import Place


@dataclass(frozen=True)
class TextEdit:
    """The characters of ``span`` give way to ``text``."""

    span: Span
    text: str


@dataclass(frozen=True)
class Word:
    """One word of a command.

    ``value`` is what the program is given, with what is decided at run time left as it is written, and then
    ``is_literal`` is false. In shell ``text`` is how it is written, quotes and all; elsewhere it is the value. Where it
    ``is_code``, it is an expression of Python, of which no other word can be made.
    """

    text: str
    value: str
    span: Span
    is_literal: bool = True
    is_code: bool = False


@dataclass(frozen=True)
class Form:
    """How the words of a command are written: what stands between two, and how a new one is quoted, but in shell.

    In shell new words come as they are to be written. ``outer`` is the quote of the string that holds the command,
    which no new word may contain.
    """

    gap: str
    quoted: Callable[[str], str] = str
    is_shell: bool = False
    outer: str = ""


@dataclass(frozen=True, eq=False)
class Command:
    """A command: its words, the variables that are set for it alone, and the command in whose words it stands.

    ``is_editable`` is false where the place is only shown to people, or could not be parsed; ``place`` is the command
    in the shell that it is part of.
    """

    words: tuple[Word, ...]
    form: Form
    assignments: tuple[Word, ...] = ()
    within: Command | None = None
    is_editable: bool = True
    place: Place | None = None

    @property
    def span(self) -> Span:
        """From the first word to the last."""
        return Span(self.words[0].span.start, self.words[-1].span.end)


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable of the environment that a file sets; ``statement`` is what goes with it when it goes.

    ``row`` has it as one of several that are set together, ``holders`` what is left without use when all of them go,
    each with its own row; ``place`` is its statement in the shell, where that can go.
    """

    name: str
    value: str
    span: Span
    statement: Span
    row: tuple[Row, int] | None = None
    holders: tuple[tuple[Row, int], ...] = ()
    place: Place | None = None
    is_prefix: bool = False


@dataclass(frozen=True)
class Expansion:
    """A place where the shell puts in the value of a variable; ``span`` is its name there."""

    name: str
    span: Span


@dataclass(frozen=True, eq=False)
class Parts:
    """What a reader found; ``documents`` are those of YAML, ``problem`` and its offset say what it could not read.

    ``held`` are commands in manifests of a job, which the rule for that kind of job reads.
    """

    commands: tuple[Command, ...] = ()
    variables: tuple[Variable, ...] = ()
    expansions: tuple[Expansion, ...] = ()
    dependencies: tuple[DependencyList, ...] = ()
    documents: tuple[Node, ...] = ()
    problem: tuple[int, str] | None = None
    held: tuple[Command, ...] = ()


@dataclass(frozen=True, eq=False)
class Document:
    """One file; ``path`` is how reports name it, ``file`` where it is."""

    path: str
    file: Path
    kind: Kind
    text: str
    read: Callable[[str], Parts] = field(default=lambda text: Parts())

    @cached_property
    def parts(self) -> Parts:
        """What its reader found in it."""
        return self.read(self.text)

    def without(self, statements: Iterable[Command | Variable]) -> tuple[tuple[TextEdit, frozenset[int]], ...]:
        """The edits that take statements out of shell, each with the identities of the nodes that it is for."""
        from migrator.textfiles.statements import without

        listed = [(each.place, each.within if isinstance(each, Command) else None) for each in statements]
        return tuple(without((place, within) for place, within in listed if place is not None))

    def line_of(self, span: Span) -> Span:
        """The whole lines that ``span`` touches, with the end of the last."""
        start = self.text.rfind("\n", 0, span.start) + 1
        end = self.text.find("\n", span.end)
        return Span(start, len(self.text) if end < 0 else end + 1)


def apply(text: str, edits: Iterable[TextEdit]) -> str:
    """``text`` after ``edits``. Raises ValueError if two of them claim the same characters."""
    pieces: list[str] = []
    position = 0
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
        if edit.span.start < position:
            raise ValueError("two edits claim one place")
        pieces += (text[position : edit.span.start], edit.text)
        position = edit.span.end
    return "".join((*pieces, text[position:]))


def reworded(text: str, command: Command, words: Sequence[Word | str]) -> Iterator[TextEdit]:
    """The edits that make ``words`` of a command: its own keep their bytes, and what stands between two of them.

    New words come with the form's gap; where words that go ended a line, what follows starts one. Raises ValueError
    where a comment would go, or a new word cannot be written.
    """
    old, form = command.words, command.form
    places = {id(word): index for index, word in enumerate(old)}
    position, start = 0, old[0].span.start
    new: list[str] = []
    for word in (*words, None):
        if isinstance(word, str):
            new.append(_checked(word, form))
            continue
        index = len(old) if word is None else places[id(word)]
        if new or index > position:
            gap = _gap(text, old[max(position, 1) - 1 : index + 1], form)
            before = form.gap if new and position else ""
            after = gap if word is not None and (new or position) else ""
            end = old[-1].span.end if word is None else word.span.start
            yield TextEdit(Span(start, end), before + form.gap.join(new) + after)
        if word is not None:
            position, start, new = index + 1, word.span.end, []


def _checked(word: str, form: Form) -> str:
    written = word if form.is_shell else form.quoted(word)
    if form.outer and form.outer in written:
        raise ValueError(f"{written} cannot be written inside {form.outer}")
    return written


def _gap(text: str, words: Sequence[Word], form: Form) -> str:
    """What stands before the last of ``words`` when those between go: a gap with a line end, if there is one near."""
    gaps = [text[one.span.end : other.span.start] for one, other in pairwise(words)]
    if any("#" in gap for gap in gaps):
        raise ValueError("a comment stands between the words that go")
    near = [gap for gap in gaps[-2:] if "\n" in gap]
    return near[-1] if near else (gaps[-1] if gaps else form.gap)
