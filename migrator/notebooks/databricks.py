"""Databricks notebooks kept as Python source: cells parted by comments, in which magics are comments too."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from migrator.layout import Span, line_starts
from migrator.notebooks.magics import kind_of
from migrator.notebooks.text import CellText, Composer, Fragment, free_token
from migrator.source import Place, Source

BOUNDARY = "# COMMAND ----------"
PREFIX = "# MAGIC "
_MAGIC = re.compile(r"(?m)^# MAGIC ?(?P<text>[^\r\n]*)(?P<end>\r\n|\n|\r|\Z)")
_BLOCK = re.compile(r"(?m)(?:^# MAGIC(?: [^\r\n]*)?(?:\r\n|\n|\r|\Z))+")
_RUN = re.compile(r"%run[ \t]+(?P<path>.+)")


def decode(source: Source) -> Source:
    """The file as the module that its cells make: ``%run`` imports all that the other notebook binds."""
    composer = Composer(free_token([source.text]))
    position = 0
    for block in _BLOCK.finditer(source.text):
        composer.put(source.text[position : block.start()], 0, position)
        _compose(composer, source.text, Span(block.start(), block.end()))
        position = block.end()
    composer.put(source.text[position:], 0, position)
    notebook = DatabricksNotebook(source.text, composer.result())
    return replace(source, text=notebook.module.text, notebook=notebook)


def _compose(composer: Composer, text: str, block: Span) -> None:
    """Add a stretch of comments that are magics."""
    body = "".join(_lines(text[block.start : block.end]))
    run = _RUN.fullmatch(body.strip())
    if run is not None:
        name = f"{composer.token}_{composer.magics}"
        composer.magics += 1
        composer.runs[name] = run["path"]
        composer.put(f"from {name} import *  ", 0, block.start)
    span = composer.put(text[block.start : block.end], 0, block.start)
    head = body.lstrip().partition("\n")[0]
    kind, word, _ = kind_of(head)
    skipped = 0 if kind == "code" else head.find(word) + len(word)
    start = span.start + text[block.start : block.end].find(head) + skipped
    content = body[body.find(head) + skipped :]
    composer.fragments.append(Fragment(kind, word, "", content, Span(start, span.end), 0, PREFIX, is_cell=True))


def _lines(block: str) -> Iterator[str]:
    yield from (match["text"] + match["end"] for match in _MAGIC.finditer(block))


@dataclass(frozen=True)
class DatabricksNotebook:
    """A file with the text of the module that it makes; the two differ in ``%run`` only."""

    file: str
    module: CellText

    @property
    def boundary(self) -> str:
        """How a comment begins that begins a cell."""
        return BOUNDARY

    def problem(self, before: str, after: str) -> str:
        """Why ``after``, the module's after edits of its code, is not the notebook's any more; empty if it is."""
        kept = rf"(?m)^(?:{BOUNDARY}|# MAGIC.*|# DBTITLE.*|from {self.module.token}_.*)"
        is_kept = re.findall(kept, before) == re.findall(kept, after) and after.startswith(before.splitlines()[0])
        return "" if is_kept else "an edit would change the cells of the notebook"

    def place(self, offset: int) -> Place:
        """Where in the file ``offset`` of the module's text stands."""
        at = self.module.cell_and_offset(offset)[1]
        line = bisect_right(self.starts, at)
        return Place(line, at - self.starts[line - 1] + 1)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where lines of the file begin."""
        return line_starts(self.file)

    def restored(self, text: str) -> str:
        """The file that ``text``, the module's after edits, is made of."""
        return re.sub(rf"(?m)^from {self.module.token}_\d+ import \*  (?=# MAGIC)", "", text)

    def readable(self, text: str) -> str:
        """The file of ``text``."""
        return self.restored(text)
