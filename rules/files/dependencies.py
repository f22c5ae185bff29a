"""HVD652 dependencies: Horovod goes from what is installed, and what the new code needs comes in.

Lists of requirements and commands that install are read as pip, conda, poetry and the others read them: with extras,
markers, hashes, continued lines, addresses and wheels. Horovod goes only where no program that the file serves still
uses it. A command that installs nothing else goes whole, with a check of Horovod behind it; an extra that was called
``horovod`` goes with its name where nothing refers to it, any other stays, empty. What came along with Horovod (PyTorch
by an extra, MPI for its build) is named, since it may be used elsewhere; so are versions that the migrated code cannot
run with, lock files, which their tools make again, and commands that fetch, build or test Horovod in other ways.

Example:

```text
torch==2.4.0
horovod[pytorch]==0.28.1
```

Use instead:

```text
torch==2.4.0
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from migrator.api import (
    Dependency,
    DependencyList,
    Document,
    RefusalError,
    Span,
    Surroundings,
    TextEdit,
    TextFinding,
    Word,
    distribution_of,
    file_rule,
    reworded,
    whole_lines,
)

from .beside import along, beside, named, said, shown
from .installation import Installation
from .installs import OF_CONDA, Install

LOCKS = {
    "poetry.lock": "poetry lock",
    "uv.lock": "uv lock",
    "pdm.lock": "pdm lock",
    "pipfile.lock": "pipenv lock",
    "pixi.lock": "pixi lock",
    "conda-lock.yml": "conda-lock",
    "pylock.toml": "pip lock",
}
GOES = "goes: the migrated code does not need it"
BY_HAND = "stays: it cannot be taken out here; take it out by hand"
COMPILED = "what only Horovod needed stays: compile the file again"


@file_rule("HVD652", "dependencies")
def dependencies(document: Document, surroundings: Surroundings) -> Iterator[TextFinding]:
    if document.kind == "lock":
        yield from _locked(document)
        return
    installation = Installation(document, surroundings)
    found = [*_listed(installation), *_installed(installation), *named(installation)]
    yield from found
    if found and not installation.reason:
        yield from beside(installation)


def _locked(document: Document) -> Iterator[TextFinding]:
    place = document.text.lower().find("horovod")
    if place >= 0:
        tool = LOCKS.get(document.file.name.lower(), "its tool")
        message = f"the file is made by a tool: once its source is without Horovod, make it again with {tool}"
        yield said(Span(place, place + len("horovod")), message)


def _listed(installation: Installation) -> Iterator[TextFinding]:
    """Horovod in lists of dependencies."""
    for listed in installation.document.parts.dependencies:
        ours = [index for index, item in enumerate(listed.items) if item.name in installation.runtimes]
        kept, edits = installation.reason, tuple[TextEdit, ...]()
        try:
            edits = tuple(_edits(installation, listed, ours)) if ours and not kept else ()
        except RefusalError as refusal:
            kept = str(refusal)
        for index in ours:
            item = listed.items[index]
            if kept:
                yield said(item.span, f"{shown(item.text)} {kept}")
            else:
                found = _gone(installation, item.span, _notes(installation, listed, item))
                yield replace(found, edits=edits if index == ours[0] else ())


def _notes(installation: Installation, listed: DependencyList, item: Dependency) -> Iterator[str]:
    text = installation.document.text
    yield f"{shown(item.text)} {GOES}" if listed.style != "names" else f"{listed.key}: {item.name} goes with Horovod"
    yield from along(installation, item.text)
    yield from _above(text, item.span)
    comment = text[item.span.end :].partition("\n")[0].strip().lstrip(",").strip()
    if comment.startswith("#"):
        yield f"its comment goes along: {comment}"
    if "--hash" in text or "# via" in text:
        yield COMPILED
    if len(listed.items) == 1 and _is_extra(listed):
        name = listed.key.rpartition(".")[2]
        goes = "goes with it" if _is_free(installation, listed) else "stays, empty"
        yield f"the extra {name} {goes}: whoever installs it gets nothing by it now"
    if needed := _needed(installation, listed.style):
        yield f"{', '.join(needed)} comes in, which the migrated code needs"


def _above(text: str, span: Span) -> Iterator[str]:
    """The comment about Horovod in the line above what goes, which may have nothing to say without it."""
    above = text[: span.start].rpartition("\n")[0].rpartition("\n")[2].strip()
    if above.startswith("#") and "horovod" in above.lower() and "# via" not in text:
        yield f"the comment above stays: {above}"


def _edits(installation: Installation, listed: DependencyList, ours: Sequence[int]) -> Iterator[TextEdit]:
    """Horovod out of a list, and what is needed in its place. Raises RefusalError where the rest would be broken."""
    if not listed.row.items:
        raise RefusalError(BY_HAND)
    text, needed = installation.document.text, _needed(installation, listed.style)
    going = dict.fromkeys(ours, "")
    if needed:
        going[ours[0]] = _joined(text, listed, ours[0], needed)
    is_empty = len(ours) == len(listed.items) and not needed
    if is_empty and listed.entry is not None and (not listed.may_be_empty or _is_free(installation, listed)):
        row, index = listed.entry
        if len(row.items) == 1 and not listed.may_be_empty:
            raise RefusalError(BY_HAND)
        yield from row.without(text, {index: ""})
        return
    if is_empty and not listed.may_be_empty:
        raise RefusalError(BY_HAND)
    yield from listed.row.without(text, going)


def _joined(text: str, listed: DependencyList, index: int, needed: Sequence[str]) -> str:
    """New items where an old one stands: on lines of their own if that has one."""
    span = listed.row.items[index]
    indent = text[text.rfind("\n", 0, span.start) + 1 : span.start]
    end = "\r\n" if "\r\n" in text else "\n"
    between = f"{listed.row.separator * (text[span.end : span.end + 1] == ',')}{end}{indent}"
    return (between if not indent.strip() else ", ").join(map(listed.quoted, needed))


def _is_extra(listed: DependencyList) -> bool:
    return any(name in listed.key for name in ("optional-dependencies", "extras"))


def _is_free(installation: Installation, listed: DependencyList) -> bool:
    """Whether an extra is Horovod's by its name, and nothing else in the file refers to it."""
    name, document = listed.key.rpartition(".")[2], installation.document
    if not _is_extra(listed) or not any(word in name.lower() for word in ("horovod", "hvd")) or listed.entry is None:
        return False
    items = (item for each in document.parts.dependencies for item in each.items)
    spans = [listed.entry[0].items[listed.entry[1]], *(i.span for i in items if i.name in installation.runtimes)]
    text = document.text
    for span in sorted(spans, key=lambda span: -span.start):
        text = text[: span.start] + text[span.end :]
    quoted = (f"'{name}'", f'"{name}"') if document.kind == "setup.py" else ()
    by_key = any(_is_subscript(text, f"{opening}{word}") for word in quoted for opening in ("[", "("))
    return not by_key and not any(reference in text for reference in (f"[{name}", f",{name}", f", {name}"))


def _is_subscript(text: str, reference: str) -> bool:
    """Whether ``["name"]`` or ``("name")`` stands behind a name, and so takes something by it."""
    place = text.find(reference)
    while place > 0 and not (text[place - 1].isalnum() or text[place - 1] in "_])"):
        place = text.find(reference, place + 1)
    return place > 0


def _needed(installation: Installation, style: str) -> list[str]:
    """What the programs need that the file does not ask for yet; versions of what is there are another matter."""
    if style in ("conda", "names"):
        return []
    asked = dict.fromkeys(need for program in installation.served for need in program.requirements)
    return [need for need in asked if distribution_of(need) == need and need not in installation.present]


def _installed(installation: Installation) -> Iterator[TextFinding]:
    """Horovod in commands that install, and in those that try it."""
    edits = () if installation.reason else installation.edits[0]
    for found in installation.installs:
        if not found.going:
            continue
        span, words = found.going[0].span, shown(" ".join(word.text for word in found.going))
        if installation.reason or not found.command.is_editable:
            why = installation.reason or "is not needed any more: the text is left as it is"
            yield said(span, f"{words} {why}")
            continue
        notes = [f"{words} {GOES}", *(note for word in found.going for note in along(installation, word.value))]
        if found.is_taken and found.command.place is not None:
            notes += _above(installation.document.text, found.command.place.span)
        try:
            own = () if found.is_taken else tuple(_reworded(installation, found, notes))
        except (RefusalError, ValueError) as refusal:
            yield said(span, f"{words} stays: {refusal}; take it out by hand")
            continue
        yield replace(_gone(installation, span, notes), edits=(*edits, *own))
        edits = ()
    for command in () if installation.reason else installation.tests:
        tried = _gone(installation, command.span, ["tries Horovod: goes with it"])
        yield replace(tried, class_="review", edits=edits)
        edits = ()


def _reworded(installation: Installation, found: Install, notes: list[str]) -> Iterator[TextEdit]:
    """The edits by which a command installs the rest; raises RefusalError where a list of words leaves nothing."""
    if found.is_empty:
        raise RefusalError("nothing would be left of the command")
    needed = _needed(installation, "conda" if found.tool in OF_CONDA else "pip")
    words: list[Word | str] = [word for word in found.command.words if not any(word is each for each in found.going)]
    if needed:
        notes.append(f"{', '.join(needed)} comes in, which the migrated code needs")
    text = installation.document.text
    lines = [whole_lines(text, word.span) for word in found.going]
    if not needed and None not in lines:
        yield from (TextEdit(place, "") for place in lines if place is not None)
    elif not needed and installation.document.kind == "dockerfile" and found.going == found.command.words[-1:]:
        yield from _last(text, found.command.words[-2], found.command.words[-1])
    else:
        yield from reworded(text, found.command, [*words, *needed])


def _last(text: str, kept: Word, word: Word) -> Iterator[TextEdit]:
    """The last word of an instruction, where comments may stand before it: they then stand behind the instruction."""
    between = text[kept.span.end : word.span.start]
    first, _, rest = between.partition("\n")
    if "#" not in rest:
        yield TextEdit(Span(kept.span.end, word.span.end), "")
        return
    yield TextEdit(Span(kept.span.end, kept.span.end + len(first.rstrip("\r"))), "")
    line = text.rfind("\n", 0, word.span.start)
    yield TextEdit(Span(line - text[:line].endswith("\r"), word.span.end), "")


def _gone(installation: Installation, span: Span, notes: Iterable[str]) -> TextFinding:
    listed = list(dict.fromkeys(notes))
    found = replace(said(span, "; ".join(listed)), class_="review" if len(listed) > 1 else "exact")
    return replace(found, programs=installation.served)
