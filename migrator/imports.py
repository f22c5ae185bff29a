"""Where new imports and helpers go in a module, under which names, and which imports it no longer needs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import libcst as cst

from migrator.bindings import Binding, Index, Scope, dotted_name
from migrator.edits import Edit, Import, Insert, Remove, Replace, Template, rename
from migrator.helpers import HelperSource, helper_source

LINE_LENGTH = 88
Features = frozenset[str]
HelperKey = tuple[str, Features]
Line = cst.SimpleStatementLine | cst.BaseCompoundStatement

_RESTARTS = ("# MAGIC %pip", "# MAGIC %conda", "%restart_python", "restartPython")


@dataclass(frozen=True)
class Need:
    """An import or a helper that edits under ``scope`` rely on."""

    scope: Scope
    item: Import | HelperKey


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a notebook: comments that begin with ``boundary`` part them.

    ``uses`` are where needs arise, each with the scope of the import that it had.
    """

    boundary: str
    uses: tuple[tuple[Scope, cst.CSTNode], ...] = ()

    def of(
        self, index: Index, unused: Sequence[Binding], kept: Sequence[Binding]
    ) -> tuple[Sequence[Line], Sequence[Line]]:
        """The statements of the cell where imports and helpers go, and those above whose imports hold there.

        A function that imports what it uses may be called before anything below it has run.
        """
        gone = [b.node for b in unused if b.scope.kind == "module" and b.symbol is not None]
        inner = [node for scope, node in self.uses if scope.kind != "module"]
        nodes = [*gone, *inner] if gone else [*(b.node for b in (*unused, *kept)), *(node for _, node in self.uses)]
        first = min(nodes, key=lambda node: index.order[id(node)], default=None)
        home = 0 if first is None else _top_place(index, first)
        body = _body(index)
        starts = [n for n, line in enumerate(body) if n == 0 or _has_comment_like(line, self.boundary)]
        start = max((n for n in starts if n <= home), default=0)
        end = min((n for n in starts if n > home), default=len(body))
        return body[start:end], body[_last_restart(index, body[: start + 1]) : start]


@dataclass(frozen=True)
class Dependencies:
    """Edits that bring in what new code needs and take out what it replaces, and the names to use for it."""

    edits: tuple[Edit, ...]
    renames: Mapping[str, str]


@dataclass(frozen=True)
class _Block:
    """The statements of a module that only import, up to the place where code begins."""

    imports: tuple[cst.SimpleStatementLine, ...]
    anchor: cst.CSTNode | None


def arrange(
    index: Index,
    needs: Collection[Need],
    unused: Sequence[Binding],
    kept: Sequence[Binding] = (),
    helper_module: str = "",
    running: Collection[int] = (),
    project: Collection[str] = (),
    cells: Cells | None = None,
    *,
    is_shipped: bool = False,
) -> Dependencies:
    """Decide on names and places for ``needs``.

    ``unused`` are bindings that nothing refers to any more, ``kept`` those of the same kind that stay. Helpers are put
    into the module itself, or imported from ``helper_module``. ``running`` are the names, by identity, that come from
    modules which do something when they are imported; ``project`` the names of other files of the project; ``cells``
    how a notebook is divided: what it needs goes into the cell of the import that goes, or of the first use. Functions
    of a module that ``is_shipped`` run elsewhere: those that import what they need themselves go on doing so.
    """
    if helper_module:
        needs = [_imported_helper(need, helper_module) for need in needs]
    unique = tuple(dict.fromkeys(needs))
    arrangement = _Arrangement(
        index, unique, tuple(unused), tuple(kept), helper_module, running, project, cells, is_shipped=is_shipped
    )
    return arrangement.result()


def _imported_helper(need: Need, helper_module: str) -> Need:
    if isinstance(need.item, Import):
        return need
    return Need(need.scope, Import(helper_module, helper_source(*need.item).name))


def helper_module_text(items: Iterable[HelperKey]) -> str:
    """A module that holds the helpers of ``items`` and those that they call."""
    sources = [helper_source(name, features) for name, features in _with_dependencies(items)]
    imports = {Import(*item) for source in sources for item in source.imports}
    sections = [[i for i in imports if _is_standard(i.module) is standard] for standard in (True, False)]
    heads = [
        "\n".join(line for _, line in import_statements(part, lambda item: item.local)) for part in sections if part
    ]
    return "\n\n\n".join(["\n\n".join(heads), *(source.text for source in sources)]) + "\n"


def import_statements(items: Iterable[Import], local: Callable[[Import], str]) -> Iterator[tuple[Import, str]]:
    """One statement for each module, in the order of the alphabet, with the first item that it imports."""
    groups: dict[object, list[Import]] = {}
    for item in sorted(items, key=_import_key):
        groups.setdefault(item.module if item.name else item, []).append(item)
    for group in groups.values():
        lines = [item.statement(local(item)) for item in group]
        names = sorted(line.partition(" import ")[2] for line in lines)
        line = lines[0] if len(group) == 1 else f"from {group[0].module} import {', '.join(names)}"
        yield group[0], line if len(line) <= LINE_LENGTH or not group[0].name else _wrapped(group[0].module, names)


def _wrapped(module: str, names: Iterable[str]) -> str:
    """The import of ``names`` in parentheses, one to a line."""
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


class _Arrangement:
    def __init__(
        self,
        index: Index,
        needs: tuple[Need, ...],
        unused: tuple[Binding, ...],
        kept: tuple[Binding, ...],
        helper_module: str,
        running: Collection[int],
        project: Collection[str],
        cells: Cells | None = None,
        *,
        is_shipped: bool = False,
    ) -> None:
        self.index = index
        self.cell, above = cells.of(index, unused, kept) if cells else (_body(index), [])
        self.above = tuple(line for line in above if _is_imports(line))
        self.running = running
        self.project = project
        self.helper_module = helper_module
        self.unused = unused
        self.kept = kept
        self.late = _late(index, unused, needs, self.cell) if cells else frozenset()
        known = {id(b.scope) for b in (*unused, *kept)}
        needs = tuple(n if id(n.scope) in known else Need(index.scope, n.item) for n in needs)
        if not is_shipped and _is_at_head(leading_block(index, ()).imports if cells is None else self.above, needs):
            needs = tuple(Need(index.scope, need.item) for need in needs)
        in_functions = bool(needs) and all(need.scope.kind != "module" for need in needs)
        gone = [b for b in unused if b.scope.kind == "module"]
        self.block = leading_block(index, gone, whole=in_functions and cells is None, body=self.cell)
        self.helpers = _with_dependencies(need.item for need in needs if isinstance(need.item, tuple))
        self.renames: dict[str, str] = {}
        self.wanted = [(need.scope, need.item) for need in needs if isinstance(need.item, Import)]
        homes = [need.scope for need in needs if not isinstance(need.item, Import)]
        functions = all(helper_source(*key).text.startswith("def ") for key in self.helpers)
        self.local_only = bool(homes) and functions and all(scope.kind != "module" for scope in homes)

    def result(self) -> Dependencies:
        sources = self.name_helpers()
        placed = [(scope, item) for scope, item in self.wanted if scope.kind == "module"]
        helped = list(self.helper_imports(sources))
        placed += [(self.index.scope, item) for item in helped]
        self.late -= set(helped)
        at_top = self.missing(item for _, item in placed)
        edits: list[Edit] = list(self.local_imports())
        edits += self.top_imports(at_top)
        edits += self.helper_definitions(sources, edits)
        return Dependencies(tuple(edits), self.renames)

    def name_helpers(self) -> list[HelperSource]:
        sources = [helper_source(name, features) for name, features in self.helpers]
        for source in sources:
            if not self.is_free(source.name) and not self.is_defined(source):
                self.renames[source.name] = self.free_name(f"distributed_{source.name}")
        return sources

    def is_free(self, name: str) -> bool:
        """Whether nothing in the module is called ``name``, or only imports that go."""
        scopes = (self.index.scope, *self.index.scopes.values())
        bindings = [binding for scope in scopes for binding in scope.bindings.get(name, ())]
        return name not in self.index.names or (bool(bindings) and all(b in self.unused for b in bindings))

    def is_defined(self, source: HelperSource) -> bool:
        """Whether an earlier run has put this helper here."""
        found = self.index.scope.bindings.get(source.name, ())
        return len(found) == 1 and _code(self.index, found[0].node) == source.text.strip()

    def free_name(self, wanted: str) -> str:
        taken = self.index.names | set(self.renames.values())
        candidates = (wanted, *(f"{wanted}_{number}" for number in range(2, 1000)))
        return next(name for name in candidates if name not in taken)

    def helper_imports(self, sources: Sequence[HelperSource]) -> Iterator[Import]:
        if self.local_only:
            return
        for source in sources:
            if not self.is_defined(source):
                yield from (Import(*item) for item in source.imports)

    def missing(self, items: Iterable[Import]) -> list[Import]:
        """The imports of ``items`` that the module's head does not have; settles the name of each."""
        found: dict[Import, None] = {}
        for item in items:
            existing = self.existing(item)
            if existing is not None:
                self.settle(item, existing)
            else:
                self.settle(item, self.local_name(item))
                found[item] = None
        return list(found)

    def existing(self, item: Import) -> str | None:
        """The name under which the module's head already imports ``item``."""
        heads = {id(alias) for line in (*self.above, *self.block.imports) for alias in _aliases(line)}
        for name, bindings in self.index.scope.bindings.items():
            if len({b.symbol for b in bindings}) != 1 or bindings[0].symbol != item.symbol:
                continue
            if any(id(b.node) in heads for b in bindings) and not self.is_shadowed(name):
                return name
        return None

    def is_shadowed(self, name: str) -> bool:
        return any(name in scope.bindings for scope in self.index.scopes.values())

    def settle(self, item: Import, local: str) -> None:
        if local != item.local:
            self.renames[item.local] = local

    def local_name(self, item: Import) -> str:
        if item.local in self.renames:
            return self.renames[item.local]
        if self.is_free(item.local) or self.is_same(item):
            return item.local
        is_helper = bool(self.helper_module) and item.module == self.helper_module
        return self.free_name(f"distributed_{item.name}" if is_helper else (item.name or item.module).replace(".", "_"))

    def is_same(self, item: Import) -> bool:
        """Whether every use of the preferred name that stays in this module means ``item`` anyway."""
        scopes = (self.index.scope, *self.index.scopes.values())
        bound = [b for scope in scopes for b in scope.bindings.get(item.local, ())]
        return bool(bound) and all(b.symbol == item.symbol or b in self.unused for b in bound)

    def local_imports(self) -> Iterator[Edit]:
        """Imports inside functions take the place of those that they replace there."""
        bindings = [*self.unused, *self.kept]
        scopes = {id(b.scope): b.scope for b in bindings if b.scope.kind != "module"}
        for scope in scopes.values():
            items = {item: None for where, item in self.wanted if where is scope and not self.is_at_head(item)}
            lines = [line for _, line in import_statements(items, self.named)]
            gone = [b for b in self.unused if b.scope is scope]
            if gone:
                yield from self.replace_imports(gone, lines)
            elif lines:
                stays = next(b.node for b in self.kept if b.scope is scope)
                yield Insert(_small_statement(self.index, stays), "after", Template("\n".join(lines), is_final=True))

    def is_at_head(self, item: Import) -> bool:
        """Whether the module's head imports ``item``, so that functions need no import of their own."""
        existing = self.existing(item)
        if existing is not None:
            self.settle(item, existing)
        return existing is not None

    def named(self, item: Import) -> str:
        local = self.local_name(item)
        self.settle(item, local)
        return local

    def top_imports(self, items: Sequence[Import]) -> Iterator[Edit]:
        gone = [b for b in self.unused if b.scope.kind == "module"]
        slot = self.slot(gone)
        in_slot: list[str] = []
        alone: list[tuple[Import, str]] = []
        late = [line for _, line in self.statements([item for item in items if item in self.late])]
        for item, line in self.statements([item for item in items if item not in self.late]):
            near = self.neighbours(item)
            if joined := self.joined(near, line):
                yield joined
            elif near and not (slot and item.module == "torch.distributed" and _has_comment(slot)):
                yield self.beside(near, item, line)
            elif self.is_local(item) and self.block.imports[-1:] != (slot,):
                gap = "" if self.is_of_project(self.block.imports[-1]) else "\n"
                yield Insert(self.block.imports[-1].body[-1], "after", Template(gap + line, is_final=True))
            elif slot and not _is_standard(item.module):
                parted = (
                    self.is_local(item) and (in_slot or not _blank_lines(slot)) and slot is not self.block.imports[0]
                )
                in_slot.append(f"\n{line}" if parted else line)
            else:
                alone.append((item, line))
        yield from self.own_sections(alone, [] if in_slot else gone)
        yield from self.replace_imports(gone, [*in_slot, *late])

    def joined(self, near: Sequence[cst.SimpleStatementLine], line: str) -> Edit | None:
        """The names of ``line`` put into a statement that imports from the same module already."""
        head, _, names = line.partition(" import ")
        if names.startswith("("):
            return None
        gone = {id(binding.node) for binding in self.unused}
        for statement in (part for other in near for part in other.body):
            aliases = _names(statement)
            if not isinstance(statement, cst.ImportFrom) or statement.lpar or not names or not aliases:
                continue
            if f"from {dotted_name(statement.module)}" == head and not any(id(alias) in gone for alias in aliases):
                parts = {f"alias{number}": alias for number, alias in enumerate(aliases)}
                own = [(dotted_name(alias.name), f"{{{name}}}") for name, alias in parts.items()]
                new = [(name.partition(" ")[0], name) for name in names.split(", ")]
                joint = sorted([*own, *new], key=_name_key) if own == sorted(own, key=_name_key) else [*own, *new]
                return Replace(
                    statement, Template(f"{head} import {', '.join(text for _, text in joint)}", parts, True)
                )
        return None

    def is_of_project(self, line: cst.SimpleStatementLine) -> bool:
        """Whether ``line`` imports another file of the project."""
        return _line_key(line)[2].startswith(".") or any(
            (isinstance(part, cst.ImportFrom) and dotted_name(part.module) in self.project)
            or any(dotted_name(alias.name) in self.project for alias in _names(part))
            for part in line.body
        )

    def is_local(self, item: Import) -> bool:
        """Whether ``item`` comes from the program itself, whose imports stand last."""
        return bool(self.block.imports) and bool(self.helper_module) and item.module == self.helper_module

    def statements(self, items: Sequence[Import]) -> Iterator[tuple[Import, str]]:
        return import_statements(items, lambda item: self.renames.get(item.local, item.local))

    def neighbours(self, item: Import) -> list[cst.SimpleStatementLine]:
        """The imports of the module's head among which ``item`` belongs."""
        if _is_standard(item.module):
            return [line for line in self.block.imports if _is_standard_line(line)]
        lines: Iterable[cst.CSTNode] = self.block.imports
        if self.helper_module and item.module == self.helper_module:
            lines = self.cell  # what makes the project's files importable may come before their imports
        imports = (line for line in lines if isinstance(line, cst.SimpleStatementLine) and _only_imports(line))
        return [line for line in imports if _root_of(line) == item.module.partition(".")[0]]

    def slot(self, gone: Sequence[Binding]) -> cst.SimpleStatementLine | None:
        """The line of the head of the module in which an import is replaced."""
        lines = [self.line_of(binding) for binding in gone if binding.symbol]
        return next((line for line in self.block.imports if any(line is other for other in lines)), None)

    def line_of(self, binding: Binding) -> cst.CSTNode | None:
        holders = self.index.ancestors(binding.node)
        return next((h for h in holders if isinstance(h, cst.SimpleStatementLine)), None)

    def beside(self, near: Sequence[cst.SimpleStatementLine], item: Import, line: str) -> Edit:
        """Among imports of the same kind, where the order of the alphabet puts it."""
        earlier = [s for s in near if _line_key(s) < _import_key(item)]
        if earlier:
            return Insert(earlier[-1].body[-1], "after", Template(line, is_final=True))
        return Insert(near[0].body[0], "before", Template(line, is_final=True))

    def own_sections(self, items: Sequence[tuple[Import, str]], gone: Sequence[Binding]) -> Iterator[Edit]:
        """Imports that have no neighbours of their kind: those of the standard library above, a blank line between.

        Where the imports above the first blank line are all ``gone``, that blank line is the one between.
        """
        standard = "\n".join(line for item, line in items if _is_standard(item.module))
        others = "\n".join(line for item, line in items if not _is_standard(item.module))
        first = next((s for s in self.block.imports if _root_of(s) != "__future__"), None)
        last_standard = next((s for s in reversed(self.block.imports) if _is_standard_line(s)), None)
        if first is None:
            yield from self.first_sections("\n\n".join(filter(None, (standard, others))))
        elif standard:
            both = last_standard is None and others
            text = f"{standard}\n\n{others}" if both else standard + "\n" * (1 - self.is_parted_by(gone))
            yield Insert(first.body[0], "before", Template(text, is_final=True))
        if others and last_standard is not None:
            following = self.index.tree.body[self.place(last_standard) + 1 :][:1]
            joined = following and following[0] in self.block.imports and not _blank_lines(following[0])
            text = f"\n{others}\n" if joined else f"\n{others}"
            yield Insert(last_standard.body[-1], "after", Template(text, is_final=True))
        elif others and first is not None and not standard:
            yield Insert(first.body[0], "before", Template(others, is_final=True))

    def is_parted_by(self, gone: Sequence[Binding]) -> bool:
        """Whether only imports that are ``gone`` stand above the first that a blank line parts from the others."""
        nodes = {id(binding.node) for binding in gone}
        for number, line in enumerate(self.block.imports):
            if number and _blank_lines(line):
                return True
            if any(id(alias) not in nodes for alias in _aliases(line)):
                break
        return False

    def first_sections(self, text: str) -> Iterator[Edit]:
        """Imports of a module whose head imports nothing but, perhaps, from the future."""
        if not text:
            return
        if self.block.imports:
            yield Insert(self.block.imports[-1].body[-1], "after", Template("\n" + text, is_final=True))
            return
        assert self.block.anchor is not None
        gap = "\n" * self.blank_lines_before(self.block.anchor)
        yield Insert(_first_statement(self.block.anchor), "before", Template(text + gap, is_final=True))

    def blank_lines_before(self, statement: cst.CSTNode) -> int:
        """How many blank lines part the imports from what is inserted next, or from ``statement``."""
        large = self.helpers and not self.helper_module
        return 2 if large or isinstance(statement, (cst.FunctionDef, cst.ClassDef)) else 1

    def replace_imports(self, bindings: Sequence[Binding], lines: Sequence[str]) -> Iterator[Edit]:
        """Take ``bindings`` out of their import statements and put ``lines`` where the first one stood."""
        statements: dict[int, cst.BaseSmallStatement] = {}
        for binding in sorted(bindings, key=lambda b: (b.symbol is None, self.index.order[id(b.node)])):
            statement = _small_statement(self.index, binding.node)
            statements.setdefault(id(statement), statement)
        gone = {id(binding.node) for binding in bindings}
        left = list(lines)
        for statement in statements.values():
            yield from self.without(statement, gone, left)
            left = []

    def without(self, statement: cst.BaseSmallStatement, gone: set[int], lines: Sequence[str]) -> Iterator[Edit]:
        rest = [alias for alias in _names(statement) if id(alias) not in gone]
        if rest:
            yield Replace(statement, self.shortened(statement, rest))
            yield from (Insert(statement, "after", Template(line, is_final=True)) for line in lines)
        elif kept := self.side_effect(statement):
            yield Replace(statement, Template(kept, is_final=True))
            yield from (Insert(statement, "after", Template(line, is_final=True)) for line in lines)
        elif lines:
            yield Replace(statement, Template(lines[0], is_final=True))
            yield from (Insert(statement, "after", Template(line, is_final=True)) for line in lines[1:])
        else:
            yield Remove(statement)

    def side_effect(self, statement: cst.BaseSmallStatement) -> str:
        """The import that still runs a module of the program from which nothing is taken any more."""
        if not isinstance(statement, cst.ImportFrom) or not any(id(a) in self.running for a in _names(statement)):
            return ""
        module = dotted_name(statement.module)
        if not statement.relative:
            return f"import {module}"
        package, _, name = module.rpartition(".")
        return f"from {'.' * len(statement.relative)}{package} import {name}" if name else ""

    def shortened(self, statement: cst.BaseSmallStatement, rest: Sequence[cst.ImportAlias]) -> Template:
        names = ", ".join(f"{{alias{number}}}" for number in range(len(rest)))
        parts = {f"alias{number}": alias for number, alias in enumerate(rest)}
        if isinstance(statement, cst.ImportFrom):
            module = "." * len(statement.relative) + dotted_name(statement.module)
            return Template(f"from {module} import {names}", parts)
        return Template(f"import {names}", parts)

    def helper_definitions(self, sources: Sequence[HelperSource], edits: Sequence[Edit]) -> Iterator[Edit]:
        missing = [source for source in sources if not self.is_defined(source)]
        texts = [self.helper_text(source) for source in missing]
        if not texts:
            return
        body = "\n\n\n".join(texts)
        if self.block.anchor is None:
            last = self.cell[-1]
            yield Insert(_last_statement(last), "after", Template("\n\n" + body, is_final=True))
        elif self.block.imports and self.index.tree.body.index(self.block.imports[-1]) + 1 == self.place(
            self.block.anchor
        ):
            above = self.blank_lines_above_gone(edits)
            below = self.blank_lines_left(self.block.anchor)
            taken_along = bool(above and below and _blank_lines(self.block.imports[-1]))
            before, after = "\n" * max(0, 2 - above), "\n" * max(0, 2 - below + taken_along)
            yield Insert(self.block.imports[-1].body[-1], "after", Template(before + body + after, is_final=True))
        else:
            yield Insert(_first_statement(self.block.anchor), "before", Template(body + "\n\n", is_final=True))

    def blank_lines_above_gone(self, edits: Sequence[Edit]) -> int:
        """How many blank lines stand above the last imports, where these go and nothing takes their place.

        An import that goes takes one of the blank lines below along, if there is one right above it.
        """
        gone = {id(edit.statement) for edit in edits if isinstance(edit, Remove)}
        taken = {id(edit.statement) for edit in edits if isinstance(edit, Insert)}
        above = 0
        for line in reversed(self.block.imports):
            if not all(id(part) in gone and id(part) not in taken for part in line.body):
                break
            above = _blank_lines(line)
        return above

    def blank_lines_left(self, anchor: cst.CSTNode) -> int:
        """How many blank lines stand above ``anchor``, or above what follows it where it goes with its imports."""
        gone = {id(binding.node) for binding in self.unused}
        own = _blank_lines(anchor)
        if not isinstance(anchor, (cst.If, cst.Try)) or not _is_all(anchor.body, gone):
            return own
        following = self.index.tree.body[self.place(anchor) + 1 :][:1]
        below = _blank_lines(following[0]) if following else 0
        return own + max(0, below - 1) if own else below

    def place(self, statement: cst.CSTNode) -> int:
        return next(n for n, other in enumerate(self.index.tree.body) if other is statement)

    def helper_text(self, source: HelperSource) -> str:
        if not self.local_only:
            return rename(source.text, self.renames)
        imports = [item for item in (Import(*each) for each in source.imports) if not self.is_at_head(item)]
        text = rename(source.text, self.renames)
        names = {self.renames.get(item.local, item.local): item for item in imports}
        used = set(re.findall(r"\w+", text.partition(":\n")[2]))
        needed = sorted(((name, item) for name, item in names.items() if name in used), key=lambda p: _import_key(p[1]))
        lines = [item.statement(name) for name, item in needed]
        return with_inner_imports(text, lines, names)


def _name_key(item: tuple[str, str]) -> tuple[int, str]:
    """The order of isort: constants, classes, the rest."""
    name = item[0]
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2), name


def _is_at_head(head: Sequence[cst.SimpleStatementLine], needs: Sequence[Need]) -> bool:
    """Whether the module imports at its head a library of which functions need a part: they then get it from there."""
    items = [i for n in needs for i in ([n.item] if isinstance(n.item, Import) else _imports_of(n.item))]
    roots = {item.module.partition(".")[0] for item in items if not _is_standard(item.module)}
    return bool(roots & {_root_of(line) for line in head})


def _imports_of(key: HelperKey) -> list[Import]:
    return [Import(*item) for item in helper_source(*key).imports]


def with_inner_imports(text: str, lines: Sequence[str], names: Collection[str]) -> str:
    """A helper that imports what it needs itself, for a module that imports nothing of it at its head."""
    if not lines:
        return text
    signature, _, body = text.partition(":\n")
    if set(re.findall(r"\w+", signature)) & set(names):
        signature = _bare_signature(signature)
    documentation, _, code = body.partition('"""\n')
    code = code.removeprefix("\n")
    inner = "".join(f"    {line}\n" for line in lines)
    return f'{signature}:\n{documentation}"""\n{inner}\n{code}'


def _bare_signature(signature: str) -> str:
    tree = cst.parse_statement(signature + ": ...")
    assert isinstance(tree, cst.FunctionDef)
    bare = tree.with_changes(returns=None, params=tree.params.visit(_WithoutAnnotations()))
    return cst.Module([bare]).code.partition(": ...")[0].strip()


class _WithoutAnnotations(cst.CSTTransformer):
    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:  # noqa: N802
        nothing = cst.SimpleWhitespace("")
        equal = cst.AssignEqual(nothing, nothing) if updated_node.default is not None else updated_node.equal
        return updated_node.with_changes(annotation=None, equal=equal)


def leading_block(
    index: Index, gone: Sequence[Binding], *, whole: bool = False, body: Sequence[Line] | None = None
) -> _Block:
    """The imports before the first code that may use what replaces ``gone``.

    That is the head of the module, or all up to the first line of imports that is replaced, further down; with
    ``whole``, where only functions use it, all imports of the module. Of a notebook only the ``body`` of a cell counts.
    """
    body = _body(index) if body is None else body
    nodes = {id(binding.node) for binding in gone}
    lines = [line for line in body if _is_imports(line)]
    first = next((line for line in lines if any(id(alias) in nodes for alias in _aliases(line))), None)
    if whole and lines:
        first = lines[-1]
    imports: list[cst.SimpleStatementLine] = []
    waiting = first is not None
    for position, statement in enumerate(body):
        if _is_imports(statement):
            imports.append(statement)
            waiting = waiting and statement is not first
        elif not waiting and not (position == 0 and _is_docstring(statement)):
            return _Block(tuple(imports), statement)
    return _Block(tuple(imports), None)


def _body(index: Index) -> Sequence[Line]:
    return [line for line in index.tree.body if isinstance(line, (cst.SimpleStatementLine, cst.BaseCompoundStatement))]


def _is_imports(line: cst.CSTNode) -> TypeGuard[cst.SimpleStatementLine]:
    return isinstance(line, cst.SimpleStatementLine) and _only_imports(line)


def _top_place(index: Index, node: cst.CSTNode) -> int:
    """The number of the statement of the module in which ``node`` stands."""
    holders = {id(holder) for holder in (node, *index.ancestors(node))}
    return next((n for n, line in enumerate(index.tree.body) if id(line) in holders), 0)


def _has_comment_like(line: Line, start: str) -> bool:
    """Whether a comment above ``line`` begins with ``start``."""
    return any(each.comment is not None and each.comment.value.startswith(start) for each in line.leading_lines)


def _late(index: Index, unused: Sequence[Binding], needs: Collection[Need], cell: Sequence[Line]) -> frozenset[Import]:
    """Imports that only code below a notebook's later cell needs, from which an import of the module goes."""
    gone = {_top_place(index, b.node) for b in unused if b.scope.kind == "module" and b.symbol is not None}
    here = {place for place, line in enumerate(_body(index)) if any(line is other for other in cell)}
    items = {kind: {n.item for n in needs if (n.scope.kind == "module") is kind} for kind in (True, False)}
    late = items[True] - items[False] if gone and not gone & here else set()
    return frozenset(item for item in late if isinstance(item, Import))


def _last_restart(index: Index, body: Sequence[Line]) -> int:
    """The number of the statement of ``body`` above which Databricks last starts Python anew."""
    for place in range(len(body) - 1, 0, -1):
        comments = [each.comment.value for each in body[place].leading_lines if each.comment is not None]
        before = index.tree.code_for_node(body[place - 1].with_changes(leading_lines=()))
        if any(mark in text for mark in _RESTARTS for text in (*comments, before)):
            return place
    return 0


def _only_imports(line: cst.SimpleStatementLine) -> bool:
    return all(isinstance(part, (cst.Import, cst.ImportFrom)) for part in line.body)


def _is_docstring(statement: cst.CSTNode) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    part = statement.body[0]
    return isinstance(part, cst.Expr) and isinstance(part.value, (cst.SimpleString, cst.ConcatenatedString))


def _is_all(block: cst.BaseSuite, gone: Collection[int]) -> bool:
    """Whether ``block`` consists of imports of which nothing stays."""
    lines = [line for line in block.body if isinstance(line, cst.SimpleStatementLine)]
    names = [alias for line in lines for part in line.body for alias in _names(part)]
    return len(lines) == len(block.body) and all(map(_only_imports, lines)) and all(id(a) in gone for a in names)


def _names(statement: cst.BaseSmallStatement) -> Sequence[cst.ImportAlias]:
    if isinstance(statement, (cst.Import, cst.ImportFrom)) and not isinstance(statement.names, cst.ImportStar):
        return statement.names
    return ()


def _aliases(line: cst.SimpleStatementLine) -> Iterator[cst.ImportAlias]:
    return (alias for part in line.body for alias in _names(part))


def _small_statement(index: Index, node: cst.CSTNode) -> cst.BaseSmallStatement:
    return next(h for h in (node, *index.ancestors(node)) if isinstance(h, cst.BaseSmallStatement))


def _first_statement(node: cst.CSTNode) -> cst.BaseSmallStatement | cst.BaseCompoundStatement:
    if isinstance(node, cst.SimpleStatementLine):
        return node.body[0]
    assert isinstance(node, cst.BaseCompoundStatement)
    return node


def _last_statement(node: cst.CSTNode) -> cst.BaseSmallStatement | cst.BaseCompoundStatement:
    return node.body[-1] if isinstance(node, cst.SimpleStatementLine) else _first_statement(node)


def _blank_lines(statement: cst.CSTNode) -> int:
    """How many blank lines stand directly above ``statement`` and the comments on it."""
    lines: Sequence[cst.EmptyLine] = getattr(statement, "leading_lines", ())
    count = 0
    for line in lines:
        if line.comment is not None:
            break
        count += 1
    return count


def _line_key(line: cst.SimpleStatementLine) -> tuple[bool, bool, str]:
    part = line.body[0]
    if isinstance(part, cst.ImportFrom):
        module = "." * len(part.relative) + dotted_name(part.module).lower()
        return not _is_standard(module), True, module
    module = dotted_name(_names(part)[0].name).lower()
    return not _is_standard(module), False, module


def _import_key(item: Import) -> tuple[bool, bool, str]:
    return not _is_standard(item.module), bool(item.name), item.module.lower()


def _root_of(line: cst.SimpleStatementLine) -> str:
    return _line_key(line)[2].partition(".")[0]


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _is_standard_line(line: cst.SimpleStatementLine) -> bool:
    return _is_standard(_line_key(line)[2]) and _root_of(line) != "__future__"


def _has_comment(line: cst.SimpleStatementLine) -> bool:
    return line.trailing_whitespace.comment is not None


def _with_dependencies(items: Iterable[HelperKey]) -> list[HelperKey]:
    """The helpers of ``items`` and those that they call, callees first; what one asks for, all of that name get."""
    found: dict[str, HelperKey] = {}

    def add(name: str, features: Features) -> None:
        function = helper_source(name, features).name
        merged = features | found.get(function, (name, frozenset()))[1]
        for other in helper_source(name, merged).helpers:
            add(other, merged)
        found[function] = (name, merged)

    for item in items:
        add(*item)
    return list(found.values())


def _code(index: Index, node: cst.CSTNode) -> str:
    if not isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        return ""
    return index.tree.code_for_node(node.with_changes(leading_lines=())).strip()
