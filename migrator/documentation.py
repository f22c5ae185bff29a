"""The rule pages: Markdown made from the rules' docstrings, for docs/rules and ``hvd-migrate explain``.

``python -m migrator.documentation docs/rules`` brings that folder up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from migrator.registry import Registry, Rule, load_rules

INDEX = "README.md"


def title(rule: Rule) -> str:
    """The rule's title as a sentence begins."""
    text = rule.title or rule.documentation.partition("\n")[0]
    return text[:1].upper() + text[1:]


def page(registry: Registry, rule_id: str) -> str:
    """The page of the rule ``rule_id``: heading, title, symbols, then what its docstrings say."""
    rules = _parts(registry, rule_id)
    symbols = sorted({symbol for rule in rules for symbol in rule.symbols})
    heading = f"# {rule_id} {rules[0].name}"
    table = "\n".join(["| Symbol |", "|---|", *(f"| `{symbol}` |" for symbol in symbols)])
    texts = dict.fromkeys(_body(rule, first=rule is rules[0]) for rule in rules)
    sections = [heading, title(rules[0]), table if symbols else "", *texts]
    return "\n\n".join(section for section in sections if section) + "\n"


def index(registry: Registry) -> str:
    """The page that lists all rules."""
    rules = (rule for _, rule in sorted(registry.rules.items()))
    rows = [f"| [{rule.id}]({rule.id}.md) | {rule.name} | {title(rule)} |" for rule in rules]
    return "\n".join(["# Rules", "", "| ID | Name | |", "|---|---|---|", *rows]) + "\n"


def pages(registry: Registry) -> dict[str, str]:
    """The whole folder: text by file name."""
    return {INDEX: index(registry)} | {f"{rule_id}.md": page(registry, rule_id) for rule_id in registry.rules}


def update(folder: Path, registry: Registry) -> None:
    """Write every page into ``folder`` and remove those of rules that are gone."""
    wanted = pages(registry)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    for stale in {path.name for path in folder.glob("*.md")} - wanted.keys():
        (folder / stale).unlink()


def _parts(registry: Registry, rule_id: str) -> list[Rule]:
    """The rule of that ID and any that share it."""
    first = registry.rules[rule_id]
    others = (rule for rule in registry.by_symbol.values() if rule.id == rule_id and rule is not first)
    return [first, *{id(rule): rule for rule in others}.values()]


def _body(rule: Rule, first: bool) -> str:
    head, _, rest = rule.documentation.partition("\n")
    return rest.strip() if first or head.startswith(rule.id) else rule.documentation.strip()


if __name__ == "__main__":
    update(Path(sys.argv[1]), load_rules())
