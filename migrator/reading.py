"""Bytes of a file become a parsed and indexed module, or a reason why not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import libcst as cst

from migrator.api import Finding, Module, Shell
from migrator.bindings import index
from migrator.calls import Functions
from migrator.layout import Span, line_starts
from migrator.program import code_of, imported_modules, locate, root_of_cached, run_target
from migrator.registry import Registry
from migrator.sites import Found, Resolver, find_sites
from migrator.source import Source, SourceError, decode


@dataclass(frozen=True)
class Input:
    """A file of a program: where it is, how reports name it, its bytes, and whether the run may write it."""

    file: Path
    path: str
    data: bytes
    is_given: bool = True

    @cached_property
    def code(self) -> bytes:
        """The bytes in which imports stand as in a Python file."""
        return code_of(self.file, self.data)


@dataclass(frozen=True, eq=False)
class File:
    """A file that was read and parsed, with what was found in it, and ``beside`` its Python, in a notebook."""

    given: Input
    source: Source
    module: Module
    found: Found
    beside: tuple[tuple[Span, Finding], ...] = ()


@dataclass(frozen=True)
class Unreadable:
    """A file that stays as it is, with the line (from 1) and the reason."""

    given: Input
    line: int
    reason: str


def read_all(inputs: Sequence[Input], registry: Registry) -> tuple[list[File], list[Unreadable]]:
    """Parse the files of a program and find its sites; files that cannot be parsed come with the reason."""
    modules: dict[Path, tuple[Input, Source, Module]] = {}
    unreadable: list[Unreadable] = []
    functions = Functions()
    for given in inputs:
        try:
            source = decode(given.path, given.data)
            found = index(_located(source))
            project, shells = _project(given.file, given.code), _shells(source)
            module = Module(given.path, source.text, found, project, functions, shells=shells)
            modules[given.file] = (given, source, module)
        except SourceError as error:
            unreadable.append(Unreadable(given, error.line, error.reason))
    return _with_sites(modules, registry), unreadable


def _shells(source: Source) -> tuple[Shell, ...]:
    """What the cells of a notebook give to a shell: the rest of a line, or a cell."""
    fragments = source.notebook.module.fragments if source.notebook is not None else ()
    found = []
    for fragment in (fragment for fragment in fragments if fragment.kind == "shell"):
        command = fragment.text if fragment.is_cell else fragment.argument
        head = fragment.text.removesuffix(command)
        found.append(Shell(command, fragment.span, lambda text, f=fragment, h=head: f.embedded(h + text)))  # type: ignore[misc]
    return tuple(found)


def _project(file: Path, data: bytes) -> frozenset[str]:
    names = set(imported_modules(data))
    return frozenset(name for name in names if name and locate(file, name, root_of_cached(file)) is not None)


def _with_sites(modules: Mapping[Path, tuple[Input, Source, Module]], registry: Registry) -> list[File]:
    paths = {id(module): given.file for given, _, module in modules.values()}

    runs = {given.file: source.notebook.module.runs for given, source, _ in modules.values() if source.notebook}

    @cache
    def located(importer: Path, name: str) -> Path | None:
        if run := runs.get(importer, {}).get(name):
            return run_target(importer, run)
        return locate(importer, name, root_of_cached(importer))

    def find(module: Module, name: str) -> Module | None:
        target = located(paths[id(module)], name)
        return modules[target][2] if target is not None and target in modules else None

    resolver = Resolver(registry, find).following([module for _, _, module in modules.values()])
    files = frozenset(modules)
    return [_file(*read, find_sites(read[2], resolver), files) for read in modules.values()]


def _file(given: Input, source: Source, module: Module, found: Found, paths: frozenset[Path]) -> File:
    if source.notebook is None:
        return File(given, source, module, found)
    from migrator.notebooks.findings import names_of, notices

    names = names_of({binding.name for binding in found.bindings}, found.sites)
    said = list(notices(source.notebook, names, module.index.tree, lambda run: run_target(given.file, run) in paths))
    needed = frozenset().union(*(used for _, _, used in said))
    kept = tuple(binding for binding in found.bindings if binding.name not in needed)
    beside = tuple((span, finding) for span, finding, _ in said)
    return File(given, source, module, replace(found, bindings=kept), beside)


def _located(source: Source) -> cst.Module:
    """The tree of ``source``; the error for a notebook says where in the file it is, and in which cell."""
    try:
        return _parse(source)
    except SourceError as error:
        if source.notebook is None:
            raise
        starts = line_starts(source.text)
        place = source.notebook.place(starts[min(error.line, len(starts)) - 1])
        raise SourceError(place.line, place.label + error.reason) from None


def _parse(source: Source) -> cst.Module:
    text = re.sub(r"\r(?!\n)", "\n", source.text) if "\r" in source.text else source.text
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise _syntax_error(text, error.raw_line, error.message) from None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the native parser panics with a class of its own
        raise _syntax_error(text, 1, f"the parser failed: {type(error).__name__}") from None


def _syntax_error(text: str, line: int, message: str) -> SourceError:
    """The reason why ``text`` does not parse, in Python's own words where it has any."""
    try:
        compile(text, "source", "exec", dont_inherit=True)
    except SyntaxError as error:
        reason = (error.msg or message).partition(". Did you mean")[0]
        kind = "Python 2 source" if "Missing parentheses" in reason else "broken syntax"
        return SourceError(error.lineno or line, f"{kind}: {reason}")
    except (ValueError, RecursionError, MemoryError) as error:
        return SourceError(line, str(error) or type(error).__name__)
    return SourceError(line, message.splitlines()[0])
