"""What rules and planners say of the sites of a program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from migrator import notices
from migrator.api import Context, Finding, NextStep, Refusal, Site
from migrator.config import Settings, is_selected
from migrator.edits import Edit
from migrator.layout import Span
from migrator.reading import File
from migrator.registry import Registry


@dataclass(frozen=True, eq=False)
class Answer:
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
        """Whether the place stays as it is, and with it the program."""
        return self.finding.class_ == "blocked"


@dataclass(frozen=True)
class Answers:
    """The answers for each module, by its identity, and what a person does after the rewrite."""

    by_module: Mapping[int, Sequence[Answer]]
    next_steps: tuple[str, ...]


def ask(files: Sequence[File], registry: Registry, settings: Settings) -> Answers:
    """Run the planners, then the rule of every site."""
    sites = tuple(site for file in files for site in file.found.sites)
    by_symbol: dict[str, list[Site]] = defaultdict(list)
    for site in sites:
        by_symbol[site.symbol].append(site)
    grouped = {symbol: tuple(found) for symbol, found in by_symbol.items()}
    context = Context(settings, tuple(file.module for file in files), sites, (), grouped)
    derived: list[Site] = []
    for plan in registry.planners:
        plans, more = plan(context)
        context = context.with_plans(plans)
        derived += more
    found: dict[int, list[Answer]] = {id(file.module): [] for file in files}
    for site in (*sites, *derived):
        found[id(site.module)] += _answer(site, context, registry)
    for file in files:
        found[id(file.module)] += (Answer(rule, finding) for rule, finding in file.found.refusals)
        for span, site in file.found.type_comments:
            found[id(file.module)] += (replace(answer, span=span) for answer in _answer(site, context, registry))
    return Answers(found, tuple(dict.fromkeys(step.text for step in context.plan(NextStep))))


def _answer(site: Site, context: Context, registry: Registry) -> Iterator[Answer]:
    rule = registry.by_symbol.get(site.symbol)
    if rule is None or rule.answer is None:
        yield Answer(notices.UNKNOWN, Finding(site.target, "blocked", f"no rule migrates {site.symbol}"), site)
        return
    if not is_selected(context.settings, rule.id):
        message = f"{site.symbol} stays: {rule.id} is not selected"
        yield Answer(rule.id, Finding(site.target, "blocked", message), site)
        return
    try:
        found = rule.answer(site, context)
    except Refusal as refusal:
        found = Finding(site.target, "blocked", str(refusal))
    for finding in found if isinstance(found, tuple) else (found,):
        yield Answer(rule.id, _with_label(finding, site), site)


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
