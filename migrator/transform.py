"""One program: sources in; findings and new texts out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from migrator import notices
from migrator.answers import ask
from migrator.config import Settings
from migrator.helper_module import HelperModule, helper_modules
from migrator.keras import with_keras
from migrator.layout import Layout, line_starts
from migrator.lightning import has_strategy
from migrator.program import imported_modules, run_files
from migrator.reading import File, Input, Unreadable, read_all
from migrator.registry import Registry, load_rules
from migrator.result import Class, Diagnostic, FileResult, FileStatus, ProgramResult, ProgramStatus
from migrator.rewrite import Rewritten, draft, finish, keep_exported
from migrator.source import Place, Source, encode
from migrator.verify import comment_spans

_TODO = re.compile(r"#[ \t]*TODO\((?P<rule>HVD\d+)\): (?P<reason>[^\r\n]*)")
_IGNORE = re.compile(r"#\s*hvd:\s*ignore\[([^\]]*)\]")


@dataclass(frozen=True)
class Outcome:
    """What became of one program; ``launchers`` and ``requirements`` are what starts it now, and what it needs."""

    findings: tuple[Diagnostic, ...]
    files: tuple[FileResult, ...]
    programs: tuple[ProgramResult, ...] = ()
    launchers: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()


def migrate_program(inputs: Sequence[Input], settings: Settings) -> Outcome:
    """Migrate the files of one program; never raises for what is in them."""
    registry = load_rules()
    settings, keras = with_keras(settings, inputs)
    files, unreadable = read_all(inputs, registry)
    return _Migration(files, unreadable, registry, settings, keras, has_strategy(inputs)).outcome()


class _Migration:
    """The steps from sites to results, for one program."""

    def __init__(
        self,
        files: Sequence[File],
        unreadable: Sequence[Unreadable],
        registry: Registry,
        settings: Settings,
        keras: str = "",
        has_strategy: bool = True,
    ) -> None:
        self.files = files
        self.unreadable = unreadable
        self.registry = registry
        self.settings = settings
        self.keras = keras
        self.has_strategy = has_strategy
        self.name = _launched([*(file.given for file in files), *(file.given for file in unreadable)])

    def outcome(self) -> Outcome:
        answers = ask(self.files, self.registry, self.settings, self.keras, has_strategy=self.has_strategy)
        partial = self.settings.partial
        drafts = [draft(file, answers.by_module[id(file.module)], partial=partial) for file in self.files]
        if partial and any(answer.is_blocked for made in drafts for answer in made.answers):
            drafts = keep_exported(drafts)
        shared = helper_modules(drafts, answers.in_place)
        names = {path: name for module in shared for path, name in module.names.items()}
        in_place = answers.in_place
        rewritten = [
            finish(made, names.get(made.file.given.file, ""), partial=partial, in_place=in_place) for made in drafts
        ]
        findings = [finding for each in rewritten for finding in self.findings(each)]
        findings += map(self.unreadable_finding, self.unreadable)
        findings += [todo for file in self.files for todo in self.open_todos(file, findings)]
        results = [*map(file_result, rewritten), *_created(shared, rewritten), *map(unreadable_result, self.unreadable)]
        shown = [f for f in findings if (f.path, f.line, f.rule) not in self.ignores]
        shown += self.unused_ignores({(f.path, f.line, f.rule) for f in findings})
        if not shown and not findings:
            return Outcome((), tuple(results), (), answers.launchers, answers.requirements)
        blocked = any(finding.class_ == "blocked" for finding in findings)
        steps = () if blocked else answers.next_steps
        paths = tuple(result.path for result in results)
        program = ProgramResult(self.name, paths, self.status(blocked, results), steps, answers.notes)
        return Outcome(tuple(sorted(shown)), tuple(results), (program,), answers.launchers, answers.requirements)

    def status(self, blocked: bool, results: Sequence[FileResult]) -> ProgramStatus:
        changed = any(result.status == "changed" for result in results)
        if blocked:
            return "partial" if self.settings.partial and changed else "blocked"
        return "migrated" if changed else "clean"

    def findings(self, rewritten: Rewritten) -> Iterator[Diagnostic]:
        """What there is to say of one file."""
        layout, file = rewritten.draft.layout, rewritten.draft.file
        for answer in rewritten.draft.answers:
            place = Place(1, 1)
            if layout is not None and (answer.span or id(answer.finding.node) in layout.spans):
                place = _place(file, layout, (answer.span or layout.span(answer.finding.node)).start)
            finding = answer.finding
            symbol = answer.site.symbol if answer.site else ""
            yield self.diagnostic(file.given.path, place, answer.rule, finding.class_, finding.message, symbol)
        for message, node in rewritten.wrong:
            place = _place(file, layout, layout.span(node).start) if layout and node else Place(1, 1)
            yield self.diagnostic(file.given.path, place, notices.CHECK, "blocked", message)
        if not file.given.is_given and file.found.bindings:
            message = "the file uses Horovod and belongs to this program, but lies outside the given paths"
            yield self.diagnostic(file.given.path, Place(1, 1), notices.OUTSIDE, "blocked", message)

    def open_todos(self, file: File, findings: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
        """The places that ``--partial`` left open in an earlier run, where nothing else is said of them."""
        said = {f.rule for f in findings if f.path == file.given.path and f.class_ == "blocked"}
        starts = line_starts(file.source.text)
        for match in _TODO.finditer(file.source.text):
            if match["rule"] not in said:
                place = _place_in(file.source, starts, match.start("rule"))
                message = f"left open by --partial: {match['reason']}"
                yield self.diagnostic(file.given.path, place, match["rule"], "blocked", message)

    def diagnostic(
        self, path: str, place: Place, rule: str, class_: Class, message: str, symbol: str = ""
    ) -> Diagnostic:
        return Diagnostic(path, place.line, place.column, rule, class_, symbol, place.label + message, self.name)

    def unreadable_finding(self, file: Unreadable) -> Diagnostic:
        message = f"the file is left as it is: {file.reason}"
        return self.diagnostic(file.given.path, Place(file.line, 1), notices.UNREADABLE, "blocked", message)

    @cached_property
    def ignores(self) -> dict[tuple[str, int, str], Place]:
        """Path, line and rule of every ignore comment, with its place."""
        return {key: place for file in self.files for key, place in _ignores_in(file)}

    def unused_ignores(self, used: set[tuple[str, int, str]]) -> Iterator[Diagnostic]:
        for (path, line, rule), place in self.ignores.items():
            if (path, line, rule) not in used:
                message = f"ignore[{rule}] silences nothing here"
                yield self.diagnostic(path, place, notices.UNUSED_IGNORE, "review", message)


def _launched(inputs: Sequence[Input]) -> str:
    """The file that a program is known by: the first that no other file of it imports, or runs."""
    imported = {(given.file, name.rpartition(".")[2]) for given in inputs for name in imported_modules(given.code)}
    run = {target for given in inputs for target in run_files(given.file, given.code)}
    free = [
        g.path for g in inputs if g.file not in run and not any(n == g.file.stem for f, n in imported if f != g.file)
    ]
    return min(free or [given.path for given in inputs])


def _place(file: File, layout: Layout, offset: int) -> Place:
    """Where ``offset`` of the file's text stands in the file."""
    notebook = file.source.notebook
    return notebook.place(offset) if notebook is not None else Place(*layout.position(offset))


def _place_in(source: Source, starts: Sequence[int], offset: int) -> Place:
    """The same, without a layout."""
    if source.notebook is not None:
        return source.notebook.place(offset)
    line = bisect_right(starts, offset)
    return Place(line, offset - starts[line - 1] + 1)


def _ignores_in(file: File) -> Iterator[tuple[tuple[str, int, str], Place]]:
    text = file.source.text
    if "hvd:" not in text:
        return
    starts = line_starts(text)
    for span in comment_spans(text):
        if match := _IGNORE.search(text[span.start : span.end]):
            place = _place_in(file.source, starts, span.start)
            for rule in match[1].split(","):
                yield (file.given.path, place.line, rule.strip()), place


def file_result(rewritten: Rewritten) -> FileResult:
    """The result for a file that was read."""
    given, source = rewritten.draft.file.given, rewritten.draft.file.source
    if not given.is_given:
        return FileResult(given.path, "skipped", "outside the given paths", given.data, given.data, source.encoding)
    after = encode(source, rewritten.after)
    status: FileStatus = "changed" if after != given.data else "unchanged"
    return FileResult(given.path, status, "", given.data, after, source.encoding, shown=_shown(source, rewritten.after))


def _shown(source: Source, after: str) -> tuple[str, str] | None:
    notebook = source.notebook
    if notebook is None or not source.path.endswith(".ipynb"):
        return None
    return notebook.readable(source.text), notebook.readable(after)


def unreadable_result(file: Unreadable) -> FileResult:
    """The result for a file that could not be read."""
    data = file.given.data
    return FileResult(file.given.path, "failed", f"line {file.line}: {file.reason}", data, data)


def _created(shared: Sequence[HelperModule], rewritten: Sequence[Rewritten]) -> Iterator[FileResult]:
    for module in shared if not any(each.wrong for each in rewritten) else ():
        yield FileResult(module.path, "changed", "", b"", module.text.encode(), is_new=True)
