"""The verb that explains rules and symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from migrator.cli.terminal import FAILED, note, print_text

if TYPE_CHECKING:
    from migrator.registry import Registry


@click.command("explain", short_help="Explain a rule or a symbol.")
@click.argument("what", nargs=-1)
def explain(what: tuple[str, ...]) -> None:
    """Explain a rule (HVD204) or what becomes of a symbol (hvd.allreduce); list all rules."""
    from migrator.documentation import page
    from migrator.registry import load_rules

    registry = load_rules()
    if not what:
        print_text("".join(f"{rule.id}  {rule.name}: {rule.title}\n" for _, rule in sorted(registry.rules.items())))
    found = [_rule_id(registry, name) for name in what]
    print_text("\n".join(page(registry, rule_id) for rule_id in dict.fromkeys(found) if rule_id))
    for name in (name for name, rule_id in zip(what, found, strict=True) if not rule_id):
        note(f"no rule is called {name!r} or answers for it{_did_you_mean(registry, name)}")
    if not all(found):
        raise click.exceptions.Exit(FAILED)


def _rule_id(registry: Registry, name: str) -> str | None:
    """The rule of that ID or name, or the one that answers for the symbol, PyTorch's before others."""
    by_name = {rule.name: rule.id for rule in registry.rules.values()}
    if name.upper() in registry.rules or name in by_name:
        return by_name.get(name, name.upper())
    tail = name.removeprefix("hvd.")
    symbols = [registry.canonical(name), f"horovod.torch.{tail}"]
    symbols += sorted(symbol for symbol in registry.by_symbol if symbol.endswith(f".{tail}"))
    return next((rule.id for symbol in symbols if (rule := registry.rule_for(symbol))), None)


def _did_you_mean(registry: Registry, name: str) -> str:
    import difflib

    torch_last = sorted(registry.by_symbol, key=lambda symbol: symbol.startswith("horovod.torch."))
    known = {rule.name: rule.name for rule in registry.rules.values()} | {key: key for key in registry.rules}
    known |= {symbol.rpartition(".")[2]: symbol for symbol in torch_last}
    near = difflib.get_close_matches(name.removeprefix("hvd.").rpartition(".")[2], known)
    near += difflib.get_close_matches(name.upper(), registry.rules)
    return f"; did you mean {', '.join(dict.fromkeys(known[key] for key in near))}?" if near else ""
