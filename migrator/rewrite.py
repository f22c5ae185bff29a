"""One file: answers in, new text out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst

from migrator import notices
from migrator.answers import Answer
from migrator.api import Finding, Module
from migrator.bindings import Binding, Reference, children_of, dotted_name, source_of
from migrator.edits import ConflictError, Edit, Editor, Insert, Replace, Splice, Splices, Template, around, nodes_of
from migrator.imports import Cells, HelperKey, Need, arrange
from migrator.layout import Layout, RoundTripError, lay_out
from migrator.program import locate, root_of_cached, run_target
from migrator.reading import File
from migrator.verify import problems

Wrong = tuple[str, cst.CSTNode | None]


@dataclass(frozen=True, eq=False)
class Draft:
    """A file with its edits settled but for imports and helpers; ``wrong`` says why there is nothing more to do.

    ``exported`` are bindings that nothing in the file uses any more, and another file does.
    """

    file: File
    answers: tuple[Answer, ...]
    layout: Layout | None
    edits: tuple[Edit, ...] = ()
    unused: tuple[Binding, ...] = ()
    wrong: tuple[Wrong, ...] = ()
    exported: tuple[Binding, ...] = ()

    @property
    def needs(self) -> list[Need]:
        """The imports and helpers that the new code relies on."""
        return [need for answer in self.answers if not answer.is_blocked for need in _needs(answer)]

    @property
    def kept(self) -> list[Binding]:
        """The bindings that stay, because something still refers to them."""
        return [binding for binding in self.file.found.bindings if binding not in self.unused]

    @property
    def helpers(self) -> list[HelperKey]:
        """The helpers among the needs."""
        return [need.item for need in self.needs if isinstance(need.item, tuple)]


@dataclass(frozen=True)
class Rewritten:
    """A file's new text, equal to the old where something is ``wrong`` with it."""

    draft: Draft
    after: str
    wrong: tuple[Wrong, ...]


def draft(file: File, answers: Sequence[Answer], *, partial: bool) -> Draft:
    """Settle the edits of ``file``; with ``partial``, what is blocked gets a TODO line."""
    layout: Layout | None = None
    try:
        layout = lay_out(file.module.index.tree, file.source.text, _wanted(file, answers))
        blocked = [answer for answer in answers if answer.is_blocked and answer.span is None]
        answers = _with_blocked(answers, file.module)
        edits = [edit for answer in answers if not answer.is_blocked for edit in answer.edits]
        if partial:
            edits += [todo for answer in blocked for todo in _todo(file, answer, layout)]
        splices = Editor(file.module.index, layout, file.source.newline).splices(edits)
    except (ConflictError, RoundTripError, RecursionError) as error:
        return Draft(file, tuple(answers), layout, wrong=(_reason(error),))
    unused = _unused(file, splices, layout)
    shown = {id(splice.node) for splice in splices.carried_out()}
    answers = [answer if _shows(answer, shown) else _dropped(answer) for answer in answers]
    return Draft(file, (*answers, *_import_answers(file, unused)), layout, tuple(edits), tuple(unused))


def keep_exported(drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts, each with the imports that another one goes on taking from it."""
    while True:
        taken = {item for made in drafts for item in _taken(made)}
        kept = [_keeping([b for b in made.unused if (made.file.given.file, b.name) in taken], made) for made in drafts]
        if all(new is old for new, old in zip(kept, drafts, strict=True)):
            return kept
        drafts = kept


def _keeping(bindings: Collection[Binding], made: Draft) -> Draft:
    if not bindings:
        return made
    nodes = {id(binding.node) for binding in bindings}
    answers = tuple(a for a in made.answers if a.rule != notices.IMPORT or id(a.finding.node) not in nodes)
    unused = tuple(binding for binding in made.unused if binding not in bindings)
    return replace(made, answers=answers, unused=unused, exported=(*made.exported, *bindings))


def _target(file: File, source: str) -> Path | None:
    """The file that ``source``, imported in ``file``, means; also the one that a notebook runs."""
    path, notebook = file.given.file, file.source.notebook
    if notebook is not None and source in notebook.module.runs:
        return run_target(path, notebook.module.runs[source])
    return locate(path, source, root_of_cached(path))


def _taken(made: Draft) -> Iterator[tuple[Path, str]]:
    """The names that ``made`` takes from other files, with these, where it still does."""
    path, index = made.file.given.file, made.file.module.index
    is_blocked = any(answer.is_blocked for answer in made.answers)
    for scope in (index.scope, *index.scopes.values()):
        for binding in (b for bindings in scope.bindings.values() for b in bindings if b.symbol):
            source, name = source_of(str(binding.symbol))
            if binding not in made.unused and source and (target := _target(made.file, source)):
                yield target, name
            target = locate(path, str(binding.symbol), root_of_cached(path)) if is_blocked else None
            if target is not None:
                yield from ((target, attribute) for attribute in index.attributes)


def finish(made: Draft, helper_module: str, *, partial: bool, in_place: Collection[str] = ()) -> Rewritten:
    """Bring in imports and helpers, the latter from ``helper_module`` if there is one, and check the result."""
    text = made.file.source.text
    if made.wrong or made.layout is None:
        return Rewritten(made, text, made.wrong)
    try:
        index, running = made.file.module.index, made.file.found.running
        project = made.file.module.project
        shipped = made.file.given.path in in_place
        needs, unused, cells = made.needs, made.unused, _cells(made)
        dependencies = arrange(
            index, needs, unused, made.kept, helper_module, running, project, cells, is_shipped=shipped
        )
        editor = Editor(made.file.module.index, made.layout, made.file.source.newline, dependencies.renames)
        splices = editor.splices([*made.edits, *dependencies.edits])
    except ConflictError as conflict:
        return Rewritten(made, text, (_reason(conflict),))
    comments = tuple(_in_comments(made.answers))
    after = Splices.of([*splices.all, *comments]).apply(text)
    is_blocked = any(answer.is_blocked for answer in made.answers)
    wrong = () if is_blocked and not partial else tuple(_checked(made, Splices.of(comments).apply(text), after))
    return Rewritten(made, text if wrong else after, wrong)


def _cells(made: Draft) -> Cells | None:
    notebook = made.file.source.notebook
    if notebook is None:
        return None
    uses = (a for a in made.answers if a.site is not None and a.span is None and any(_needs(a)))
    return Cells(notebook.boundary, tuple((a.site.home, a.finding.node) for a in uses if a.site is not None))


def _reason(error: Exception) -> Wrong:
    node = error.nodes[1] if isinstance(error, ConflictError) else None
    return str(error) or "the file nests too deeply", node


def _checked(made: Draft, before: str, after: str) -> Iterator[Wrong]:
    notebook = made.file.source.notebook
    texts = (before, after) if notebook is None else (_without_future(before), _without_future(after))
    for message in problems(*texts, _bound_elsewhere(made.file.module)):
        yield message, None
    if notebook is not None and (message := notebook.problem(before, after)):
        yield message, None
    if not any(answer.is_blocked for answer in made.answers):
        yield from _still_used(made.file, (*made.unused, *made.exported))


def _without_future(text: str) -> str:
    """A notebook's text in which every cell may begin with imports from the future, as it may."""
    return re.sub(r"(?m)^from __future__ import", "from future import", text)


def _todo(file: File, answer: Answer, layout: Layout) -> Iterator[Edit]:
    line = _above(file.module, answer.finding.node)
    text = f"# TODO({answer.rule}): {answer.finding.message}"
    if text not in _comments_above(layout, layout.line_start(layout.span(line).start)):
        yield Insert(line, "before", Template(text))


def _comments_above(layout: Layout, start: int) -> Iterator[str]:
    """The comments that stand directly above the line that begins at ``start``, the last first."""
    while start:
        line = layout.text[layout.line_start(start - 1) : start].strip()
        if not line.startswith("#"):
            return
        yield line
        start = layout.line_start(start - 1)


def _bound_elsewhere(module: Module) -> set[str]:
    """Names whose only binding reads them (``x = wrap(x)``): a star import, or code out of sight, binds them first."""

    def reads_itself(binding: Binding) -> bool:
        uses = (r.node for r in module.index.references[binding.name])
        return binding.value is not None and any(binding.value in module.index.ancestors(node) for node in uses)

    return {
        name
        for name, bindings in module.index.scope.bindings.items()
        if all(reads_itself(binding) for binding in bindings)
    }


def _with_blocked(answers: Sequence[Answer], module: Module) -> list[Answer]:
    """The answers, with those inside a blocked place blocked as well: it keeps its text."""
    stays = {id(answer.finding.node) for answer in answers if answer.is_blocked and answer.span is None}

    def is_inside(answer: Answer) -> bool:
        return answer.span is None and any(id(h) in stays for h in module.index.ancestors(answer.finding.node))

    message = "stays with the call that it is an argument of"
    return [
        Answer(answer.rule, Finding(answer.finding.node, "blocked", message), answer.site)
        if stays and not answer.is_blocked and is_inside(answer)
        else answer
        for answer in answers
    ]


def _shows(answer: Answer, shown: Collection[int]) -> bool:
    """Whether any edit of ``answer`` shows in the result; the others lie in what another edit takes away."""
    edits = answer.edits
    return answer.is_blocked or not edits or any(id(edit.place) in shown for edit in edits)


def _in_comments(answers: Sequence[Answer]) -> Iterator[Splice]:
    for answer in answers:
        for edit in answer.finding.edits:
            if answer.span is not None and not answer.is_blocked and isinstance(edit, Replace):
                yield Splice(answer.span, (edit.template.text,), edit.node)


def _dropped(answer: Answer) -> Answer:
    finding = Finding(answer.finding.node, "exact", "goes with the call that it was an argument of")
    return Answer(answer.rule, finding, answer.site)


def _wanted(file: File, answers: Sequence[Answer]) -> list[cst.CSTNode]:
    """Every node whose place is needed: for edits, findings, imports and the references to Horovod."""
    module = file.module
    nodes: list[cst.CSTNode] = [answer.finding.node for answer in answers if answer.span is None]
    nodes += [_above(module, answer.finding.node) for answer in answers if answer.is_blocked and answer.span is None]
    nodes += [binding.node for binding in file.found.bindings]
    lines = around(module.index, [*nodes, *module.index.tree.body])
    nodes += [reference.node for b in file.found.bindings for reference in module.index.references[b.name]]
    edits = [edit for answer in answers for edit in answer.edits]
    return [*nodes, *lines, *nodes_of(module.index, edits)]


def _line_of(module: Module, node: cst.CSTNode) -> cst.BaseSmallStatement | cst.BaseCompoundStatement:
    holders = (node, *module.index.ancestors(node))
    return next(h for h in holders if isinstance(h, (cst.BaseSmallStatement, cst.BaseCompoundStatement)))


def _above(module: Module, node: cst.CSTNode) -> cst.BaseSmallStatement | cst.BaseCompoundStatement:
    """The statement above which a comment on ``node`` has a line of its own."""
    statement = _line_of(module, node)
    holder = module.index.parent(statement)
    if isinstance(holder, cst.SimpleStatementSuite):
        return next(h for h in module.index.ancestors(holder) if isinstance(h, cst.BaseCompoundStatement))
    return holder.body[0] if isinstance(holder, cst.SimpleStatementLine) else statement


def _needs(answer: Answer) -> Iterator[Need]:
    if answer.site is not None:
        yield from (Need(answer.site.home, item) for item in answer.finding.imports)
        yield from (Need(answer.site.home, (h.name, h.features)) for h in answer.finding.helpers)


def _unused(file: File, splices: Splices, layout: Layout) -> list[Binding]:
    """The Horovod bindings of which no reference would be left."""
    lost = sorted(splices.lost(), key=lambda span: span.start)
    starts = [span.start for span in lost]
    gone: list[Binding] = []
    followed: set[int] = set()

    def is_gone(reference: Reference) -> bool:
        span = layout.span(reference.node)
        place = bisect_right(starts, span.start) - 1
        return id(reference.node) in followed or (place >= 0 and lost[place].holds(span))

    def is_unused(binding: Binding) -> bool:
        own = {
            id(name) for b in binding.scope.bindings[binding.name] if b.value is not None for name in _names(b.value)
        }
        return all(id(use.node) in own or is_gone(use) for use in _uses(file, binding))

    while more := [b for b in file.found.bindings if b not in gone and is_unused(b)]:
        more = [b for b in more if id(b.node) not in file.found.leads or any(_uses(file, b))]
        if not more:
            break
        gone += more
        followed |= {id(name) for b in more if b.value is not None for name in _names(b.value)}
    return gone


def _uses(file: File, binding: Binding) -> list[Reference]:
    references = file.module.index.references[binding.name]
    return [r for r in references if r.scope.home(binding.name) is binding.scope]


def _names(node: cst.CSTNode) -> Iterator[cst.Name]:
    if isinstance(node, cst.Name):
        yield node
    for child in children_of(node):
        yield from _names(child)


def _still_used(file: File, unused: Sequence[Binding]) -> list[tuple[str, cst.CSTNode | None]]:
    left = [b for b in file.found.bindings if b not in unused and id(b.node) not in file.found.leads]
    return [(f"the result would still use Horovod through {b.name!r}", b.node) for b in left]


def _import_answers(file: File, unused: Sequence[Binding]) -> Iterator[Answer]:
    for binding in unused:
        if not _uses(file, binding):
            finding = Finding(binding.node, "exact", f"{binding.name} is imported and never used: the import goes")
            yield Answer(notices.IMPORT, finding)
        if binding.kind == "import" and _tells_failure(binding, file.module):
            message = "the import cannot fail any more: what the program notes when it succeeds is always so"
            yield Answer(notices.OPTIONAL, Finding(binding.node, "review", message))


def _tells_failure(binding: Binding, module: Module) -> bool:
    """Whether something else than ``binding`` is assigned when the import fails."""
    holders = module.index.ancestors(binding.node)
    try_ = next((h for h in holders if isinstance(h, (cst.Try, cst.FunctionDef))), None)
    if not isinstance(try_, cst.Try):
        return False
    lines = [line for handler in try_.handlers for line in handler.body.body]
    parts = [part for line in lines if isinstance(line, cst.SimpleStatementLine) for part in line.body]
    targets = [target.target for part in parts if isinstance(part, cst.Assign) for target in part.targets]
    return any(dotted_name(target) != binding.name for target in targets)
