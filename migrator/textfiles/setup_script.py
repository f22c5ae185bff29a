"""Read setup.py: the dependencies in its lists, as far as they are written there. The script is not run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.layout import Span
from migrator.textfiles.dependencies import Dependency, DependencyList, dependency
from migrator.textfiles.document import Parts
from migrator.textfiles.rows import Row

_KEYWORDS = ("install_requires", "extras_require", "tests_require", "setup_requires", "requires")
_Items = ast.List | ast.Tuple | ast.Set


@dataclass(frozen=True, eq=False)
class _Script:
    text: str
    lines: tuple[str, ...]
    starts: tuple[int, ...]

    def span(self, node: ast.expr) -> Span:
        """Where an expression stands; Python counts bytes within a line."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return Span(self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset))

    def _offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode("utf-8", "ignore"))


def read_setup_script(text: str) -> Parts:
    """The parts of a setup.py."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        return Parts(problem=(0, f"not valid Python: {error}"))
    lines = tuple(text.split("\n"))
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    script = _Script(text, lines, tuple(starts))
    found: dict[int, DependencyList] = {}
    for items, listed in _lists(script, tree):
        found.setdefault(id(items), listed)
    return Parts(dependencies=tuple(found.values()))


def _lists(script: _Script, tree: ast.Module) -> Iterator[tuple[ast.expr, DependencyList]]:
    """The lists in what the arguments of ``setup`` are made from: literals, and what the names in them are given."""
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        for name, value in _assigned(node):
            given.setdefault(name, []).append(value)
    waiting = [(word.arg or "", word.value) for call in ast.walk(tree) for word in _arguments(call)]
    waiting = [(key, value) for key, value in waiting if key in _KEYWORDS]
    seen: set[int] = set()
    while waiting:
        key, value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield from _in(script, key, value)
        names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
        waiting += [(key, each) for name in sorted(names) for each in given.get(name, ())]


def _arguments(node: ast.AST) -> list[ast.keyword]:
    """The arguments of a call of ``setup``."""
    is_setup = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "setup"
    return node.keywords if isinstance(node, ast.Call) and is_setup else []


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement gives something, or more of it."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield (
                _root(target),
                ast.Dict([target.slice], [node.value]) if isinstance(target, ast.Subscript) else node.value,
            )
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value is not None:
        yield _root(node.target), node.value
    elif isinstance(node, ast.FunctionDef):
        yield from ((node.name, each.value) for each in ast.walk(node) if isinstance(each, ast.Return) and each.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from ((_root(node.func.value), argument) for argument in node.args)


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _in(script: _Script, key: str, value: ast.expr) -> Iterator[tuple[ast.expr, DependencyList]]:
    for node in ast.walk(value):
        if isinstance(node, ast.Dict):
            entries = [n for n, name in enumerate(node.keys) if name is not None]
            for index in entries:
                name, each = node.keys[index], node.values[index]
                extra = f"{key}.{name.value!s}" if isinstance(name, ast.Constant) else key
                if isinstance(each, _Items):
                    yield each, _list(script, extra, each, _entry(script, node, index))
                elif isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each, DependencyList(extra, "pip", (dependency(each.value, script.span(each)),), Row(()))
        elif isinstance(node, ast.keyword) and isinstance(node.value, _Items):
            yield node.value, _list(script, f"{key}.{node.arg}", node.value, None)
        elif isinstance(node, _Items):
            yield node, _list(script, key, node, None)
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        asked = tuple(dependency(line, script.span(value)) for line in value.value.splitlines() if line.strip())
        yield value, DependencyList(key, "pip", asked, Row(()))


def _entry(script: _Script, holder: ast.Dict, index: int) -> tuple[Row, int] | None:
    """An entry of a dictionary as an item; None for one that stands for ``extras["name"] = [...]``."""
    if not hasattr(holder, "lineno") or any(key is None for key in holder.keys):
        return None
    keys = [script.span(key).start for key in holder.keys if key is not None]
    ends = [script.span(value).end for value in holder.values]
    return Row(tuple(Span(start, end) for start, end in zip(keys, ends, strict=True))), index


def _list(script: _Script, key: str, node: _Items, entry: tuple[Row, int] | None) -> DependencyList:
    asked: list[Dependency] = []
    row: list[Span] = []
    for element in node.elts:
        span = script.span(element)
        row.append(span)
        value = element.value if isinstance(element, ast.Constant) else ""
        asked.append(dependency(value if isinstance(value, str) else "", span))
    quote = next((text[0] for span in row if (text := script.text[span.start : span.end])[:1] in ("'", '"')), '"')
    return DependencyList(
        key,
        "pip",
        tuple(asked),
        Row(tuple(row), is_tuple=isinstance(node, ast.Tuple)),
        lambda new: f"{quote}{new}{quote}",
        entry,
    )
