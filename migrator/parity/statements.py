"""The lines that the statements of a Python file stand on."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_Part = ast.stmt | ast.excepthandler | ast.match_case
_PARTS = ("body", "handlers", "cases", "orelse", "finalbody")


@dataclass(frozen=True, order=True)
class Lines:
    """Lines from ``first`` to ``last``, both included and counted from 1."""

    first: int
    last: int


def statements(source: str) -> list[Lines]:
    """The lines of every simple statement, and of the header of every compound one, in order.

    Raises SyntaxError for source that does not parse.
    """
    return sorted(set(_statements(ast.parse(source).body)))


def docstrings(source: str) -> set[Lines]:
    """The statements that are constants alone, of which nothing is executed.

    Raises SyntaxError for source that does not parse.
    """
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr))
    return {span(node) for node in nodes if isinstance(node.value, ast.Constant)}


def statement_at(lines: Sequence[Lines], line: int) -> Lines:
    """The statement that ``line`` belongs to; the line alone where it belongs to none, a comment's for instance."""
    found = bisect_right(lines, Lines(line, 1 << 60)) - 1
    return lines[found] if found >= 0 and line <= lines[found].last else Lines(line, line)


def span(statement: ast.stmt | ast.excepthandler) -> Lines:
    """All lines of a statement, decorators and body included."""
    first = _first_line(statement)
    return Lines(first, statement.end_lineno or first)


def _statements(body: Sequence[_Part]) -> Iterator[Lines]:
    for statement in body:
        parts = [part for name in _PARTS for part in _part(statement, name)]
        yield from _statements(parts)
        if not isinstance(statement, ast.match_case):
            first = _first_line(statement)
            yield Lines(first, max(first, _first_line(parts[0]) - 1)) if parts else span(statement)


def _part(statement: ast.AST, name: str) -> Sequence[_Part]:
    part = getattr(statement, name, [])
    return part if isinstance(part, list) else []


def _first_line(part: _Part) -> int:
    if isinstance(part, ast.match_case):
        return part.pattern.lineno
    decorators: list[ast.expr] = getattr(part, "decorator_list", [])
    return min([part.lineno, *(decorator.lineno for decorator in decorators)])
