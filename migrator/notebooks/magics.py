"""What IPython takes for itself in the code of a cell: magics, shell lines, questions."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from migrator.layout import Span
from migrator.verify import string_end

Kind = Literal["code", "magic", "assigned", "prefix", "assigned-prefix"]
FragmentKind = Literal["shell", "packages", "file", "run", "code", "text"]

# Options that take a value, of the line magics that run the Python after them.
_RUNS_CODE = {
    "time": "",
    "timeit": "nrp",
    "prun": "lsTD",
    "memit": "rt",
    "lprun": "fmDTsru",
    "mprun": "fT",
    "debug": "b",
}
_CODE_CELLS = frozenset({"time", "timeit", "prun", "memit", "capture"})
_LANGUAGES = frozenset({"sh", "bash", "sql", "scala", "r", "md", "md-sandbox", "fs"})
_SHELL = frozenset({"!", "!!", "sh", "bash", "script", "sx", "system", "env", "set_env"})
_PROSE = frozenset(
    {
        *("md", "md-sandbox", "markdown", "html", "HTML", "latex", "svg", "javascript", "js", "css"),
        *("sql", "scala", "r", "R", "fs", "julia", "perl", "ruby", "cython", "bigquery", "mermaid"),
        *("matplotlib", "load_ext", "reload_ext", "autoreload", "config", "cd", "pwd", "ls"),
    }
)
_INSTALLERS = frozenset({"pip", "conda", "mamba", "micromamba", "uv"})
_TYPED_BARE = frozenset({"pip", "conda", "cd", "ls", "cat", "mkdir", "rm", "rmdir", "cp", "mv", "pwd", "clear", "run"})

_STEP = re.compile(
    r"(?P<comment>\#[^\r\n]*)|(?:\b[rRbBuUfFtT]{1,2})?(?P<quote>'''|\"\"\"|'|\")"
    r"|(?P<open>[\[({])|(?P<close>[\])}])|(?P<continued>\\(?:\r\n|\n|\r))|(?P<end>\r\n|\n|\r)"
)
_LINE_END = re.compile(r"\r\n|\n|\r")
_INDENTATION = re.compile(r"[ \t\f]*")
_ASSIGNED = re.compile(r"[^=\r\n#'\"(!<>%]*=[ \t]*(?=!|%[A-Za-z_])")
_NAME = re.compile(r"(?P<mark>%%?|!!?|\?\??|[,;/])[ \t]*(?P<name>[\w.-]*)")
_COMMAND = re.compile(
    r"(?:[\w./{}$]*/)?(?P<installer>pip|conda|mamba|micromamba|uv)\d?(?:\.\d+)?[ \t]|\S*python[\d.]* -m pip "
)
_BLANK_LINES = re.compile(r"(?:[ \t]*(?:\r\n|\n|\r))*")


@dataclass(frozen=True)
class Piece:
    """A stretch of a cell; of a prefix, the code that it runs follows as the next piece."""

    kind: Kind
    span: Span


@dataclass(frozen=True)
class Header:
    """The first line of a cell, where it says what the cell is; ``end`` is where the rest begins."""

    end: int
    name: str
    rest: str
    is_python: bool


class CutOffError(Exception):
    """Code that ends within a string, within brackets, or after a backslash; the argument is the offset of its line."""


def header_of(source: str) -> Header | None:
    """The cell magic of a cell, also the language with which Databricks begins a cell."""
    start = _BLANK_LINES.match(source).end()  # type: ignore[union-attr]
    match = _NAME.match(source, start)
    if match is None or match["mark"] not in ("%", "%%"):
        return None
    name, line = match["name"], _physical_end(source, start)
    end = line.end
    if match["mark"] == "%" and not _is_of_databricks(name, source[match.end() : line.start], source[end:]):
        return None
    rest = source[match.end() : line.start].strip()
    return Header(end, name, rest, name in _CODE_CELLS if match["mark"] == "%%" else name == "python")


def _is_of_databricks(name: str, rest: str, body: str) -> bool:
    """Whether ``%name`` makes the whole cell its own: always without anything after it, else if no Python follows."""
    if name == "python":
        return not rest.strip()
    if name not in _LANGUAGES or not body.strip():
        return False
    return not rest.strip() or not _parses(body)


def pieces_of(source: str, start: int = 0) -> Iterator[Piece]:
    """Code and magics of a cell in turn, from ``start``; raises CutOffError."""
    code = position = start
    while position < len(source):
        begin = _INDENTATION.match(source, position).end()  # type: ignore[union-attr]
        found, end = _magic(source, begin)
        if found:
            if begin > code:
                yield Piece("code", Span(code, begin))
            yield from found
            code = found[-1].span.end
        position = end
    if code < len(source):
        yield Piece("code", Span(code, len(source)))


def _magic(source: str, begin: int) -> tuple[tuple[Piece, ...], int]:
    """The pieces of a line that IPython takes, none of one of Python, and where the next one begins."""
    line = _physical_end(source, begin)
    if source[begin : begin + 1] in ("%", "!", "?", ",", ";", "/"):
        return _prefixed(source, Span(begin, line.start), "prefix") or (
            Piece("magic", Span(begin, line.start)),
        ), line.end
    if match := _ASSIGNED.match(source, begin, line.start):
        here = Span(match.end(), line.start)
        head = Piece("code", Span(begin, match.end()))
        return (head, *(_prefixed(source, here, "assigned-prefix") or (Piece("assigned", here),))), line.end
    logical, end = _logical_end(source, begin)
    text = source[begin:logical].rstrip()
    if text.endswith("?") or (text.split(" ")[0] in _TYPED_BARE and not _parses(text)):
        return (Piece("magic", Span(begin, begin + len(text))),), end
    return (), end


def _prefixed(source: str, span: Span, kind: Literal["prefix", "assigned-prefix"]) -> tuple[Piece, ...]:
    """A magic and the Python that it runs, where that can stand on its line."""
    match = _NAME.match(source, span.start)
    if match is None or match["mark"] != "%" or match["name"] not in _RUNS_CODE:
        return ()
    takes = _RUNS_CODE[match["name"]] or "_"
    options = re.compile(rf"(?:[ \t]+-(?:[{takes}][ \t]*[^\s-]\S*|\w+))*[ \t]+(?:--[ \t]+)?")
    code = options.match(source, match.end(), span.end)
    if code is None or not _is_simple(source[code.end() : span.end], is_value=kind == "assigned-prefix"):
        return ()
    return Piece(kind, Span(span.start, code.end())), Piece("code", Span(code.end(), span.end))


def _is_simple(code: str, *, is_value: bool) -> bool:
    """Whether ``code`` may stand on a line after something else."""
    try:
        tree = _parsed(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if is_value:
        return len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) and "\n" not in code
    return bool(tree.body) and not any(hasattr(statement, "body") for statement in tree.body)


def _parses(code: str) -> bool:
    try:
        _parsed(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _parsed(code: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code)


def _physical_end(source: str, start: int) -> Span:
    """The line ending of a line, of the last one where lines are continued by a backslash."""
    position = start
    while match := _LINE_END.search(source, position):
        if not source.endswith("\\", start, match.start()):
            return Span(match.start(), match.end())
        position = match.end()
    return Span(len(source), len(source))


def _logical_end(source: str, start: int) -> tuple[int, int]:
    """Where the code of a logical line ends, without a comment, and where the next one begins."""
    depth, position = 0, start
    while match := _STEP.search(source, position):
        position = match.end()
        if match["quote"]:
            closing = string_end(source, match["quote"], position)
            if closing is None and len(match["quote"]) == 3:
                raise CutOffError(start)
            position = closing or position
        elif depth <= 0 and match["end"] is not None:
            return match.start(), position
        elif depth <= 0 and match["comment"] is not None:
            return match.start(), _physical_line(source, position)
        depth += (match["open"] is not None) - (match["close"] is not None)
    if depth > 0 or source.endswith("\\"):
        raise CutOffError(start)
    return len(source), len(source)


def _physical_line(source: str, position: int) -> int:
    """Where the line after that of ``position`` begins."""
    end = _LINE_END.search(source, position)
    return end.end() if end else len(source)


def _without_variables(command: str) -> str:
    """A shell command without what stands before it: variables, sudo."""
    words = command.split()
    first = next((n for n, word in enumerate(words) if "=" not in word and word not in ("sudo", "env")), len(words))
    return " ".join(words[first:]) + " "


def kind_of(magic: str) -> tuple[FragmentKind, str, str]:
    """What a magic, or the header of a cell, is for; its name, and the text after that."""
    match = _NAME.match(magic)
    if match is None:  # typed without a percent sign
        word, _, rest = magic.partition(" ")
        return ("packages" if word in _INSTALLERS else "run" if word == "run" else "text"), word, rest
    mark, name, rest = match["mark"], match["name"], magic[match.end() :].strip()
    if mark in ("!", "!!"):
        name, rest = mark, magic[len(mark) :].strip()
    if name in _INSTALLERS or (name in _SHELL and _COMMAND.match(_without_variables(rest))):
        return "packages", name, rest
    if name in _SHELL:
        return "shell", name, rest
    if name in ("writefile", "file"):
        return "file", name, rest
    if name == "run" and mark == "%":
        return "run", name, rest
    return ("text" if name in _PROSE or mark.startswith("?") else "code"), name, rest
