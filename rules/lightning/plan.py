"""What chooses Horovod for the Trainers of a program, and what means something else with DDP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from migrator.api import Context, Module, NextStep, Site, StartedBy, cst, dotted_name, planner

from ..spark.names import starts_ranks
from ..values import is_constant
from .chosen import COUNTS, KEYWORDS, Chosen, arguments, horovods, site_of, trainers

CHOICE = "lightning.Trainer.strategy"
DEFAULT = "lightning.Trainer.strategy.default"
COUNT = "lightning.Trainer.devices"
GATHER = "lightning.LightningModule.all_gather"
OPTION = "lightning.Trainer.option"
SYNC = "lightning.Trainer.sync_batchnorm"


@planner
def plan_strategy(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the strings that choose Horovod for a Trainer, and what means something else with DDP."""
    plan = Chosen()
    sites: list[Site] = []
    calls = [(module, call) for module in context.modules for call in trainers(module)]
    defaults = [site_of(DEFAULT, node, module) for module in context.modules for node in _defaults(module) if calls]
    for module, call in calls:
        sites += _of_trainer(call, module, plan, is_chosen=bool(defaults))
    sites += defaults
    sites += [site_of(OPTION, node, module) for module in context.modules for node in _options(module)]
    if sites:
        sites += [site_of(GATHER, node, module) for module in context.modules for node in _gathers(module)]
    is_started = context.uses("horovod.torch.init") or any(starts_ranks(context))
    paths = dict.fromkeys(site.module.path for site in sites if site.symbol == CHOICE and not is_started)
    text = "start {} with python, once on each host: Lightning starts the ranks (in place of horovodrun)"
    steps = [NextStep(text.format(path)) for path in paths]
    return (plan, *steps, *(StartedBy("python") for _ in steps[:1])), _once(sites)


def _once(sites: Iterable[Site]) -> list[Site]:
    """``sites`` without those that several Trainers share."""
    return list({(site.symbol, id(site.node)): site for site in sites}.values())


def _of_trainer(call: cst.Call, module: Module, plan: Chosen, *, is_chosen: bool) -> Iterator[Site]:
    given = list(arguments(call, module))
    found = [(one, string) for one in given if one.name in KEYWORDS for string in horovods(one, module)]
    for one, string in found:
        plan.strings[id(string)] = one
        plan.others[id(string)] = given
        yield site_of(CHOICE, string, module.holding(string))
    if found or is_chosen:
        for one in given:
            if one.name == "sync_batchnorm" and not is_constant(one.value, "False"):
                yield site_of(SYNC, one.value, module.holding(one.value))
        counts = [one for one in given if one.name in COUNTS]
        for count in counts:
            yield site_of(COUNT, count.value, module.holding(count.value))
        if not counts:
            yield site_of(COUNT, call, module)


def _options(module: Module) -> Iterator[cst.SimpleString]:
    """Strings of a command line that choose Horovod: ``--trainer.strategy=horovod``."""
    for node in module.index.strings:
        name, _, value = str(node.raw_value).partition("=")
        if value == "horovod" and name.startswith("--") and name.lstrip("-").rpartition(".")[2] in KEYWORDS:
            yield node


def _defaults(module: Module) -> Iterator[cst.SimpleString]:
    """What ``add_argument("--strategy", default="horovod")`` or ``set_defaults(strategy="horovod")`` chooses."""
    for node in module.index.strings:
        argument = module.index.parent(node)
        call = module.index.parent(argument) if isinstance(argument, cst.Arg) else None
        if node.raw_value != "horovod" or not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call):
            continue
        keyword, function = argument.keyword, dotted_name(call.func).rpartition(".")[2]
        first = call.args[0].value
        named = isinstance(first, cst.SimpleString) and str(first.raw_value) == "--strategy"
        if keyword is not None and (function, keyword.value, named) in _OPTIONS:
            yield node


_OPTIONS = (("add_argument", "default", True), ("set_defaults", "strategy", False))


def _gathers(module: Module) -> Iterator[cst.Attribute]:
    """Calls of the all_gather of a LightningModule."""
    return (
        n for n in module.index.attributes["all_gather"] if isinstance(n.value, cst.Name) and n.value.value == "self"
    )
