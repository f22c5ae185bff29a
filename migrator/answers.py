"""What rules and planners say of the sites of a program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from migrator import notices
from migrator.api import Context, Finding, InPlace, Needs, NextStep, Note, RefusalError, Site, StartedBy
from migrator.config import Settings, is_selected
from migrator.edits import Edit, Replace, Template
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
    """The answers for each module, by its identity, what a person does after the rewrite, and what it is for.

    ``launchers`` and ``requirements`` are what starts the program now, and what it needs; ``in_place`` the paths of
    files that have their helpers in themselves.
    """

    by_module: Mapping[int, Sequence[Answer]]
    next_steps: tuple[str, ...]
    notes: tuple[str, ...]
    launchers: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    in_place: frozenset[str] = frozenset()


def ask(
    files: Sequence[File], registry: Registry, settings: Settings, keras: str = "", *, has_strategy: bool = True
) -> Answers:
    """Run the planners, then the rule of every site."""
    sites = tuple(site for file in files for site in file.found.sites)
    by_symbol: dict[str, list[Site]] = defaultdict(list)
    for site in sites:
        by_symbol[site.symbol].append(site)
    grouped = {symbol: tuple(found) for symbol, found in by_symbol.items()}
    context = Context(settings, tuple(file.module for file in files), sites, (), grouped, keras, has_strategy)
    derived: list[Site] = []
    for plan in registry.planners:
        plans, more = plan(context)
        context = context.with_plans(plans)
        derived += more
    found: dict[int, list[Answer]] = {id(file.module): [] for file in files}
    for site in (*sites, *derived):
        found[id(site.module)] += _answer(site, context, registry)
    chosen = {id(site.node) for site in derived}
    for file in files:
        said = (n for n in file.found.notices if n[0] != notices.STRING or id(n[1].node) not in chosen)
        found[id(file.module)] += (Answer(rule, finding) for rule, finding in said)
        read = {answer.span for answer in found[id(file.module)] if answer.span}
        beside = ((span, finding) for span, finding in file.beside if span not in read or finding.class_ == "blocked")
        found[id(file.module)] += (Answer(notices.NOTEBOOK, finding, span=span) for span, finding in beside)
        for node, uses in file.found.annotations:
            found[id(file.module)].append(_in_quotes(node, uses, context, registry))
        for span, site in file.found.type_comments:
            found[id(file.module)] += (replace(answer, span=span) for answer in _answer(site, context, registry))
    if settings.partial and any(answer.is_blocked for answers in found.values() for answer in answers):
        found = {module: [_withheld(answer) for answer in answers] for module, answers in found.items()}
    return Answers(
        found,
        tuple(dict.fromkeys(step.text for step in context.plan(NextStep))),
        tuple(dict.fromkeys(note.text for note in context.plan(Note))),
        tuple(dict.fromkeys(plan.launcher for plan in context.plan(StartedBy))),
        tuple(dict.fromkeys(plan.requirement for plan in context.plan(Needs))),
        frozenset(plan.path for plan in context.plan(InPlace)),
    )


def _answer(site: Site, context: Context, registry: Registry) -> Iterator[Answer]:
    rule = registry.rule_for(site.symbol)
    if rule is None or rule.answer is None:
        yield Answer(notices.UNKNOWN, Finding(site.target, "blocked", f"no rule migrates {site.symbol}"), site)
        return
    if not is_selected(context.settings, rule.id):
        message = f"{site.symbol} stays: {rule.id} is not selected"
        yield Answer(rule.id, Finding(site.target, "blocked", message), site)
        return
    try:
        found = rule.answer(site, context)
    except RefusalError as refusal:
        found = Finding(site.target, "blocked", str(refusal), place=site.shell.span if site.shell else None)
    except Exception as error:
        found = Finding(site.target, "blocked", f"the rule failed: {type(error).__name__}: {error}")
    for finding in found if isinstance(found, tuple) else (found,):
        yield Answer(rule.id, _with_label(finding, site), site, finding.place)


def _in_quotes(
    node: cst.SimpleString, uses: Sequence[tuple[Span, Site]], context: Context, registry: Registry
) -> Answer:
    """One answer for an annotation in quotes: the uses in it are replaced within the string."""
    text, answers = node.value, [(span, next(_answer(site, context, registry))) for span, site in uses]
    for span, answer in reversed(answers):
        edits = answer.finding.edits
        if answer.is_blocked or len(edits) != 1 or not isinstance(edits[0], Replace) or edits[0].template.parts:
            message = f"the annotation in quotes names Horovod: {answer.finding.message}"
            return Answer(answer.rule, Finding(node, "blocked", message), answer.site)
        text = text[: span.start] + edits[0].template.text + text[span.end :]
    rule, last = answers[0][1].rule, answers[0][1]
    imports = tuple(needed for _, answer in answers for needed in answer.finding.imports)
    message = "; ".join(answer.finding.message for _, answer in answers)
    return Answer(
        rule, Finding(node, last.finding.class_, message, (Replace(node, Template(text)),), imports), last.site
    )


def _withheld(answer: Answer) -> Answer:
    """The answer, without the edits by which a module is not handed on any more: what is blocked still needs it."""
    if answer.rule != notices.ESCAPES or not answer.edits:
        return answer
    message = "stays while something blocked needs the module"
    return Answer(answer.rule, Finding(answer.finding.node, "blocked", message), answer.site)


def _with_label(finding: Finding, site: Site) -> Finding:
    """A warning where an f-string prints the source text of what is replaced: ``{hvd.rank()=}``."""
    holder = site.module.index.parent(site.target)
    if isinstance(holder, cst.FormattedStringExpression) and holder.equal is not None and finding.class_ == "exact":
        return replace(
            finding, class_="review", message=f"{finding.message}; the label that '=' prints changes with it"
        )
    return finding
