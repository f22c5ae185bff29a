"""Read Markdown: the commands in its code blocks, which are shown to people and never edited."""

from __future__ import annotations

from dataclasses import replace

from markdown_it import MarkdownIt

from migrator.layout import Span, line_starts
from migrator.textfiles.document import Command, Parts
from migrator.textfiles.shell import commands
from migrator.textfiles.syntax import parse

_SHELLS = ("", "sh", "bash", "shell", "console", "shell-session", "zsh", "terminal")


def read_markdown(text: str) -> Parts:
    """The parts of a Markdown file."""
    starts = [*line_starts(text), len(text)]
    found: list[Command] = []
    for token in MarkdownIt().parse(text):
        if token.type in ("fence", "code_block") and token.map and token.info.strip().split(" ")[0] in _SHELLS:
            first, last = token.map
            span = Span(starts[first + (token.type == "fence")], starts[last - (token.type == "fence")])
            lines = text[span.start : span.end].splitlines(keepends=True)
            block = "".join(f"  {line[2:]}" if line.startswith("$ ") else line for line in lines)
            seen = text[: span.start] + block + text[span.end :]
            found += (replace(command, is_editable=False) for command in commands(parse("bash", seen, span)))
    return Parts(tuple(found))
