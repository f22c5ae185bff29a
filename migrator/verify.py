"""The result of an edit parses, binds every name it uses and keeps every comment."""

from __future__ import annotations

import builtins
import re
import symtable
import sys
import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache

from migrator.layout import Span

_TOKENS = re.compile(
    r"""(?P<comment>\#[^\r\n]*)|(?:\b[rRbBuUfFtT]{1,2})?(?P<quote>'''|\"\"\"|'|")""",
    re.VERBOSE,
)
_ENDS = {
    **{quote: re.compile(rf"(?:\\.|[^\\])*?{quote}", re.DOTALL) for quote in ("'''", '"""')},
    **{quote: re.compile(rf"(?:\\\r\n|\\.|[^\\\r\n])*?{quote}", re.DOTALL) for quote in ("'", '"')},
}
_MODULE_NAMES = frozenset({"__file__", "__name__", "__doc__", "__package__", "__spec__", "__loader__", "__path__"})
_BUILTINS = frozenset(dir(builtins)) | _MODULE_NAMES


@lru_cache(maxsize=16)
def comment_spans(text: str) -> tuple[Span, ...]:
    """Where the comments stand; found without a parser, by stepping over string literals."""
    spans: list[Span] = []
    position = 0
    while match := _TOKENS.search(text, position):
        if match["comment"] is not None:
            spans.append(Span(match.start(), match.end()))
            position = match.end()
        else:
            position = string_end(text, match["quote"], match.end()) or match.end()
    return tuple(spans)


def string_end(text: str, quote: str, start: int) -> int | None:
    """Where a string ends of which the opening ``quote`` ends at ``start``; None if it does not."""
    closing = _ENDS[quote].match(text, start)
    return closing.end() if closing else None


def comments(text: str) -> Counter[str]:
    """How often each comment occurs."""
    return Counter(text[span.start : span.end].rstrip() for span in comment_spans(text))


def unbound_names(text: str) -> set[str]:
    """Names that a module uses and nothing in it, nor Python, binds; raises SyntaxError or ValueError."""
    return set(_unbound(symtable.symtable(text, "module", "exec"), None))


def _unbound(table: symtable.SymbolTable, module: symtable.SymbolTable | None) -> Iterator[str]:
    bound = set(table.get_identifiers()) if module is None else set(module.get_identifiers())
    top = table if module is None else module
    for symbol in table.get_symbols():
        name = symbol.get_name()
        local = symbol.is_local() or symbol.is_free() or symbol.is_imported() or symbol.is_parameter()
        if local or not symbol.is_referenced() or name in _BUILTINS:
            continue
        if name in bound:
            found = top.lookup(name)
            if found.is_assigned() or found.is_imported() or found.is_namespace() or _declared_global(top, name):
                continue
        yield name
    for child in table.get_children():
        yield from _unbound(child, top)


def _declared_global(table: symtable.SymbolTable, name: str) -> bool:
    for child in table.get_children():
        if name in child.get_identifiers():
            symbol = child.lookup(name)
            if symbol.is_declared_global() and (symbol.is_assigned() or symbol.is_imported()):
                return True
        if _declared_global(child, name):
            return True
    return False


def problems(before: str, after: str, bound_elsewhere: Collection[str] = ()) -> Iterator[str]:
    """What is wrong with ``after``, made from ``before``; nothing if all is well."""
    if before == after:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            known = unbound_names(before)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            version = ".".join(map(str, sys.version_info[:2]))
            yield f"Python {version} cannot read the file, so the result cannot be checked: {error}"
            return
        try:
            loose = unbound_names(after) - known - set(bound_elsewhere)
        except (SyntaxError, ValueError) as error:
            yield f"the result would not parse: {error}"
            return
    if lost := comments(before) - comments(after):
        yield f"the result would lose the comment {next(iter(lost))!r}"
    if loose:
        yield f"the result would use {', '.join(sorted(loose))} without binding it"
