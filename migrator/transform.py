"""One program: sources in; findings and new texts out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst

from migrator import notices
from migrator.api import Context, Finding, Module, NextStep, Refusal, Site
from migrator.bindings import Binding, Reference, index
from migrator.config import Settings, is_selected
from migrator.edits import Conflict, Edit, Editor, Insert, Replace, Splice, Splices, Template, around, nodes_of
from migrator.imports import Need, arrange
from migrator.layout import Layout, RoundTripError, Span, lay_out
from migrator.program import locate, root_of
from migrator.registry import Registry, load_rules
from migrator.result import Diagnostic, FileResult, ProgramResult, ProgramStatus
from migrator.sites import Found, Resolver, find_sites
from migrator.source import Source, SourceError, decode, encode
from migrator.verify import comment_spans, problems

_IGNORE = re.compile(r"#\s*hvd:\s*ignore\[([^\]]*)\]")


@dataclass(frozen=True)
class Input:
    """A file of a program: where it is, how reports name it, its bytes, and whether the run may write it."""

    file: Path
    path: str
    data: bytes
    is_given: bool = True


@dataclass(frozen=True)
class Outcome:
    """What became of one program."""

    findings: tuple[Diagnostic, ...]
    files: tuple[FileResult, ...]
    programs: tuple[ProgramResult, ...] = ()


@dataclass(frozen=True, eq=False)
class _Answer:
    """A finding with the rule that gave it and the site it is about; ``span`` where that is in a comment."""

    rule: str
    finding: Finding
    site: Site | None = None
    span: Span | None = None

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Edits of the tree."""
        return self.finding.edits if self.span is None else ()

    @property
    def is_blocked(self) -> bool:
        return self.finding.class_ == "blocked"


@dataclass(frozen=True, eq=False)
class _File:
    """A file that was read and parsed, with what was found in it."""

    given: Input
    source: Source
    module: Module
    found: Found


@dataclass(frozen=True)
class _Change:
    """The new text of a file; ``after`` is the old one where nothing changes."""

    file: _File
    after: str
    findings: tuple[Diagnostic, ...]


def migrate_program(inputs: Sequence[Input], settings: Settings) -> Outcome:
    """Migrate the files of one program; never raises for what is in them."""
    registry = load_rules()
    modules: dict[Path, tuple[Input, Source, Module]] = {}
    failed: list[tuple[FileResult, Diagnostic]] = []
    for given in inputs:
        try:
            modules[given.file] = _read(given)
        except SourceError as error:
            failed.append(_unreadable(given, error.line, error.reason))
    return _Migration(_find_all(modules, registry), failed, registry, settings).outcome()


def _read(given: Input) -> tuple[Input, Source, Module]:
    source = decode(given.path, given.data)
    tree = _parse(source)
    return given, source, Module(given.path, source.text, index(tree))


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


def _unreadable(given: Input, line: int, reason: str) -> tuple[FileResult, Diagnostic]:
    result = FileResult(given.path, "failed", f"line {line}: {reason}", given.data, given.data)
    message = f"the file is left as it is: {reason}"
    return result, Diagnostic(given.path, line, 1, notices.UNREADABLE, "blocked", "", message, given.path)


def _find_all(modules: Mapping[Path, tuple[Input, Source, Module]], registry: Registry) -> list[_File]:
    by_module = {id(module): given.file for given, _, module in modules.values()}

    def find(module: Module, name: str) -> Module | None:
        importer = by_module[id(module)]
        target = locate(importer, name, root_of(importer))
        return modules[target][2] if target in modules else None

    resolver = Resolver(registry, find)
    return [_File(given, source, module, find_sites(module, resolver)) for given, source, module in modules.values()]


class _Migration:
    """The steps from sites to texts, for one program."""

    def __init__(
        self,
        files: Sequence[_File],
        failed: Sequence[tuple[FileResult, Diagnostic]],
        registry: Registry,
        settings: Settings,
    ) -> None:
        self.files = files
        self.failed = failed
        self.registry = registry
        self.settings = settings
        self.name = min([file.given.path for file in files] + [result.path for result, _ in failed])

    def outcome(self) -> Outcome:
        answers, steps = self.answers()
        changes = [self.change(file, answers[id(file.module)]) for file in self.files]
        findings = [f for change in changes for f in change.findings]
        findings += [replace(diagnostic, program=self.name) for _, diagnostic in self.failed]
        blocked = any(finding.class_ == "blocked" for finding in findings)
        results = [self.file_result(change) for change in changes] + [result for result, _ in self.failed]
        shown = [finding for finding in findings if not self.is_ignored(finding)]
        shown += self.unused_ignores(findings)
        if not findings and not shown:
            return Outcome((), tuple(results))
        status = self.status(blocked, results)
        program = ProgramResult(self.name, tuple(r.path for r in results), status, () if blocked else steps)
        return Outcome(tuple(sorted(shown)), tuple(results), (program,))

    def status(self, blocked: bool, results: Sequence[FileResult]) -> ProgramStatus:
        changed = any(result.status == "changed" for result in results)
        if blocked:
            return "partial" if self.settings.partial and changed else "blocked"
        return "migrated" if changed else "clean"

    def file_result(self, change: _Change) -> FileResult:
        given, source = change.file.given, change.file.source
        if not given.is_given:
            return FileResult(given.path, "skipped", "outside the given paths", given.data, given.data, source.encoding)
        after = encode(source, change.after)
        status = "changed" if after != given.data else "unchanged"
        return FileResult(given.path, status, "", given.data, after, source.encoding)  # type: ignore[arg-type]

    def answers(self) -> tuple[dict[int, list[_Answer]], tuple[str, ...]]:
        """What rules and planners say, by module, and what a person does next."""
        sites = tuple(site for file in self.files for site in file.found.sites)
        by_symbol: dict[str, tuple[Site, ...]] = {}
        for site in sites:
            by_symbol[site.symbol] = (*by_symbol.get(site.symbol, ()), site)
        context = Context(self.settings, tuple(f.module for f in self.files), sites, (), by_symbol)
        answers: dict[int, list[_Answer]] = {id(file.module): [] for file in self.files}
        derived: list[Site] = []
        for plan in self.registry.planners:
            plans, more = plan(context)
            context = context.with_plans(plans)
            derived += more
        for site in (*sites, *derived):
            answers[id(site.module)] += self.answer(site, context)
        for file in self.files:
            answers[id(file.module)] += (_Answer(rule, finding) for rule, finding in file.found.refusals)
            for span, site in file.found.type_comments:
                answers[id(file.module)] += (replace(a, span=span) for a in self.answer(site, context))
        return answers, tuple(dict.fromkeys(step.text for step in context.plan(NextStep)))

    def answer(self, site: Site, context: Context) -> Iterator[_Answer]:
        rule = self.registry.by_symbol.get(site.symbol)
        if rule is None or rule.answer is None:
            yield _Answer(notices.UNKNOWN, Finding(site.target, "blocked", f"no rule migrates {site.symbol}"), site)
            return
        if not is_selected(self.settings, rule.id):
            yield _Answer(rule.id, Finding(site.target, "blocked", f"{site.symbol} stays: {rule.id} is not selected"), site)
            return
        try:
            found = rule.answer(site, context)
        except Refusal as refusal:
            found = Finding(site.target, "blocked", str(refusal))
        for finding in found if isinstance(found, tuple) else (found,):
            yield _Answer(rule.id, _with_label(finding, site), site)

    def change(self, file: _File, answers: Sequence[_Answer]) -> _Change:
        """Apply ``answers`` to one file; what the checks find wrong becomes a finding, and nothing is edited."""
        after, wrong = file.source.text, list[tuple[str, cst.CSTNode | None]]()
        layout: Layout | None = None
        try:
            layout = lay_out(file.module.index.tree, file.source.text, _wanted(file, answers))
            after, unused, answers = self.rewrite(file, answers, layout)
            wrong = [(message, None) for message in problems(file.source.text, after, _bound_elsewhere(file.module))]
            wrong += [] if any(answer.is_blocked for answer in answers) else _still_used(file, unused)
        except Conflict as conflict:
            wrong = [(str(conflict), conflict.nodes[1])]
        except (RoundTripError, RecursionError) as error:
            wrong = [(str(error) or "the file nests too deeply", None)]
        placed = [*self.place(file, answers, layout), *self.outside(file)]
        placed += [self.check_failure(file, message, node, layout) for message, node in wrong]
        return _Change(file, file.source.text if wrong else after, tuple(placed))

    def rewrite(
        self, file: _File, answers: Sequence[_Answer], layout: Layout
    ) -> tuple[str, list[Binding], list[_Answer]]:
        """The new text, the bindings that it no longer has, and what there is to say of each place."""
        kept = [answer for answer in answers if not answer.is_blocked]
        edits = [edit for answer in kept for edit in answer.edits]
        if self.settings.partial:
            edits += [todo for answer in answers if answer.is_blocked for todo in self.todo(file, answer, layout)]
        editor = Editor(file.module.index, layout, file.source.newline)
        splices = editor.splices(edits)
        unused = _unused(file, splices, layout)
        shown = {id(splice.node) for splice in splices.carried_out()}
        answers = [answer if _shows(answer, shown) else _dropped(answer) for answer in answers]
        needs = [need for answer in answers if not answer.is_blocked for need in _needs(answer)]
        dependencies = arrange(file.module.index, needs, unused)
        splices = replace(editor, renames=dependencies.renames).splices([*edits, *dependencies.edits])
        splices = Splices.of([*splices.all, *_in_comments(answers)])
        return splices.apply(file.source.text), unused, [*answers, *_import_answers(file, unused)]

    def todo(self, file: _File, answer: _Answer, layout: Layout) -> Iterator[Edit]:
        line = _line_of(file.module, answer.finding.node)
        text = f"# TODO({answer.rule}): {answer.finding.message}"
        start = layout.line_start(layout.span(line).start)
        if start and layout.text[layout.line_start(start - 1) : start].strip() == text:
            return
        yield Insert(line, "before", Template(text))

    def place(self, file: _File, answers: Sequence[_Answer], layout: Layout | None) -> Iterator[Diagnostic]:
        for answer in answers:
            line, column = 1, 1
            if layout is not None and (answer.span or id(answer.finding.node) in layout.spans):
                line, column = layout.position((answer.span or layout.span(answer.finding.node)).start)
            symbol = answer.site.symbol if answer.site else ""
            finding = answer.finding
            yield Diagnostic(
                file.given.path, line, column, answer.rule, finding.class_, symbol, finding.message, self.name
            )

    def check_failure(
        self, file: _File, message: str, node: cst.CSTNode | None, layout: Layout | None
    ) -> Diagnostic:
        line, column = layout.position(layout.span(node).start) if layout and node else (1, 1)
        return Diagnostic(file.given.path, line, column, notices.CHECK, "blocked", "", message, self.name)

    def outside(self, file: _File) -> Iterator[Diagnostic]:
        if not file.given.is_given and file.found.bindings:
            message = "the file uses Horovod and belongs to this program, but lies outside the given paths"
            yield Diagnostic(file.given.path, 1, 1, notices.OUTSIDE, "blocked", "", message, self.name)

    def ignores(self) -> Iterator[tuple[str, int, int, str]]:
        """Path, line, column and rule of every ignore comment."""
        for file in self.files:
            text = file.source.text
            if "hvd:" not in text:
                continue
            for span in comment_spans(text):
                if match := _IGNORE.search(text[span.start : span.end]):
                    head = text[: span.start]
                    line = head.count("\n") + 1
                    column = span.start - (head.rfind("\n") + 1) + 1
                    for rule in match[1].split(","):
                        yield file.given.path, line, column, rule.strip()

    def is_ignored(self, finding: Diagnostic) -> bool:
        return any((path, line, rule) == (finding.path, finding.line, finding.rule) for path, line, _, rule in self.ignores())

    def unused_ignores(self, findings: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
        silenced = {(finding.path, finding.line, finding.rule) for finding in findings}
        for path, line, column, rule in self.ignores():
            if (path, line, rule) not in silenced:
                message = f"ignore[{rule}] silences nothing here"
                yield Diagnostic(path, line, column, notices.UNUSED_IGNORE, "review", "", message, self.name)


def _with_label(finding: Finding, site: Site) -> Finding:
    """A warning where an f-string prints the source text of what is replaced: ``{hvd.rank()=}``."""
    holder = site.module.index.parent(site.target)
    if isinstance(holder, cst.FormattedStringExpression) and holder.equal is not None and finding.class_ == "exact":
        return replace(finding, class_="review", message=f"{finding.message}; the label that '=' prints changes with it")
    return finding


def _bound_elsewhere(module: Module) -> set[str]:
    """Names whose only binding reads them (``x = wrap(x)``): a star import or other code out of sight binds them first."""

    def reads_itself(binding: Binding) -> bool:
        uses = (r.node for r in module.index.references[binding.name])
        return binding.value is not None and any(binding.value in module.index.ancestors(node) for node in uses)

    return {
        name for name, bindings in module.index.scope.bindings.items() if all(reads_itself(binding) for binding in bindings)
    }


def _shows(answer: _Answer, shown: Collection[int]) -> bool:
    """Whether any edit of ``answer`` shows in the result; the others lie in what another edit takes away."""
    edits = answer.edits
    return answer.is_blocked or not edits or any(id(edit.place) in shown for edit in edits)


def _in_comments(answers: Sequence[_Answer]) -> Iterator[Splice]:
    for answer in answers:
        for edit in answer.finding.edits:
            if answer.span is not None and not answer.is_blocked and isinstance(edit, Replace):
                yield Splice(answer.span, (edit.template.text,), edit.node)


def _dropped(answer: _Answer) -> _Answer:
    finding = Finding(answer.finding.node, "exact", "goes with the call that it was an argument of")
    return _Answer(answer.rule, finding, answer.site)


def _wanted(file: _File, answers: Sequence[_Answer]) -> list[cst.CSTNode]:
    """Every node whose place is needed: for edits, findings, imports and the references to Horovod."""
    module = file.module
    nodes: list[cst.CSTNode] = [answer.finding.node for answer in answers if answer.span is None]
    nodes += [binding.node for binding in file.found.bindings]
    lines = [part for node in nodes for part in around(module.index, node)]
    lines += [part for statement in module.index.tree.body for part in around(module.index, statement)]
    nodes += [reference.node for b in file.found.bindings for reference in module.index.references[b.name]]
    edits = [edit for answer in answers for edit in answer.edits]
    return [*nodes, *lines, *nodes_of(module.index, edits)]


def _line_of(module: Module, node: cst.CSTNode) -> cst.BaseSmallStatement | cst.BaseCompoundStatement:
    holders = (node, *module.index.ancestors(node))
    return next(h for h in holders if isinstance(h, (cst.BaseSmallStatement, cst.BaseCompoundStatement)))


def _needs(answer: _Answer) -> Iterator[Need]:
    if answer.site is not None:
        yield from (Need(answer.site.home, item) for item in answer.finding.imports)
        yield from (Need(answer.site.home, (h.name, h.features)) for h in answer.finding.helpers)


def _unused(file: _File, splices: Splices, layout: Layout) -> list[Binding]:
    """The Horovod bindings of which no reference would be left."""
    lost = sorted(splices.lost(), key=lambda span: span.start)
    starts = [span.start for span in lost]
    gone: list[Binding] = []
    followed: set[int] = set()

    def is_gone(reference: Reference) -> bool:
        span = layout.span(reference.node)
        place = bisect_right(starts, span.start) - 1
        return id(reference.node) in followed or (place >= 0 and lost[place].holds(span))

    while more := [b for b in file.found.bindings if b not in gone and all(map(is_gone, _uses(file, b)))]:
        more = [b for b in more if id(b.node) not in file.found.leads or any(_uses(file, b))]
        if not more:
            break
        gone += more
        followed |= {id(_root(b.value)) for b in more if b.value is not None}
    return gone


def _uses(file: _File, binding: Binding) -> list[Reference]:
    references = file.module.index.references[binding.name]
    return [r for r in references if r.scope.home(binding.name) is binding.scope]


def _root(node: cst.BaseExpression) -> cst.BaseExpression:
    return _root(node.value) if isinstance(node, cst.Attribute) else node


def _still_used(file: _File, unused: Sequence[Binding]) -> list[tuple[str, cst.CSTNode | None]]:
    left = [b for b in file.found.bindings if b not in unused and id(b.node) not in file.found.leads]
    return [(f"the result would still use Horovod through {b.name!r}", b.node) for b in left]


def _import_answers(file: _File, unused: Sequence[Binding]) -> Iterator[_Answer]:
    for binding in unused:
        if not _uses(file, binding):
            finding = Finding(binding.node, "exact", f"{binding.name} is imported and never used: the import goes")
            yield _Answer(notices.IMPORT, finding)
