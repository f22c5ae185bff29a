"""Where a program trains elastically: what is asked of states and samplers, and which branch of a flag it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from migrator.api import Context, Definition, Module, Site, cst, definition_of, planner

from ..followed import Followed

RUN = "horovod.torch.elastic.run"
RUN_FN = "horovod.torch.elastic.run_fn"
STATE = "horovod.torch.elastic.TorchState"
SAMPLER = "horovod.torch.elastic.ElasticSampler"
PACKAGES = ("horovod.torch.elastic.", "horovod.common.elastic.")
METHODS = {
    STATE: (
        *("commit", "save", "restore", "sync", "check_host_updates", "register_reset_callbacks"),
        *("on_reset", "on_hosts_updated", "reset"),
    ),
    SAMPLER: ("set_epoch", "record_batch", "reset", "state_dict", "load_state_dict"),
}


@dataclass(frozen=True, eq=False)
class Elastic:
    """The branches of a flag that train elastically: by the identity of a site's node, the block that it stands in."""

    branches: dict[int, cst.IndentedBlock] = field(default_factory=dict)
    first: dict[int, cst.CSTNode] = field(default_factory=dict)


@planner
def plan_elastic(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find what is asked of states and samplers, and the branches in which all of that stands."""
    sites = [site for site in context.sites if site.symbol.startswith(PACKAGES)]
    members = list({id(site.node): site for site in _members(context)}.values())
    plan = Elastic()
    for site in (*sites, *members):
        block = elastic_branch(site.node, site.module)
        if block is not None:
            plan.branches[id(site.node)] = block
            plan.first.setdefault(id(block), site.node)
    return (plan,), members


def _members(context: Context) -> Iterator[Site]:
    states = [(Followed(site.module).follow(site.target), site) for site in context.uses(STATE)]
    states += [found for site in (*context.uses(RUN), *context.uses(RUN_FN)) for found in _parameters(site)]
    samplers = [(Followed(site.module).follow(site.target), site) for site in context.uses(SAMPLER)]
    names = {name for sampler, _ in samplers for name in _kept_as(sampler)}
    for state, site in states:
        yield from state.members(STATE, METHODS[STATE], site)
        samplers += [(Followed(site.module).follow(node), site) for _, node in state.attributes(names)]
    for sampler, site in samplers:
        yield from sampler.members(SAMPLER, METHODS[SAMPLER], site)


def _parameters(site: Site) -> Iterator[tuple[Followed, Site]]:
    """The state that the function gets which ``site`` runs elastically."""
    for function in _run_functions(site):
        followed, names = Followed(site.module), [p.name.value for p in function.parameters]
        if len(names) > function.is_bound:
            followed.follow_parameter(function.scope, function.module, names[function.is_bound])
            yield followed, site


def _kept_as(sampler: Followed) -> Iterator[str]:
    """The attributes under which states keep a sampler: ``TorchState(train_sampler=sampler)``."""
    for node in sampler.seen.values():
        argument = sampler.module.holding(node).index.parent(node)
        if isinstance(argument, cst.Arg) and argument.keyword is not None:
            yield argument.keyword.value


def _run_functions(site: Site) -> Iterator[Definition]:
    """The functions that may be run: the decorated one, or those that the first argument may name."""
    module = site.module
    holders = module.index.ancestors(site.node)
    decorator, function = next(holders, None), next(holders, None)
    given = site.call.args[0].value if site.call is not None and site.call.args else None
    if isinstance(decorator, cst.Decorator) and isinstance(function, cst.FunctionDef):
        yield definition_of(function, module)
    elif isinstance(given, cst.Attribute):
        yield from module.functions.named(given.attr.value)
    elif isinstance(given, cst.Name):
        for binding in module.index.scope_of(given).lookup(given.value):
            yield from module.functions.bound(binding, module)


def elastic_branch(node: cst.CSTNode, module: Module) -> cst.IndentedBlock | None:
    """The branch around ``node`` that a flag for elastic training chooses, where there is another one."""
    inner: cst.CSTNode = node
    for holder in module.index.ancestors(node):
        if isinstance(holder, cst.If) and holder.orelse is not None and "elastic" in _source(holder.test, module):
            branch = inner.body if isinstance(inner, cst.Else) else inner
            return branch if isinstance(branch, cst.IndentedBlock) and _is_plain(branch) else None
        inner = holder
    return None


def _is_plain(block: cst.IndentedBlock) -> bool:
    return all(len(statements_of(line)) == 1 for line in block.body)


def _source(node: cst.BaseExpression, module: Module) -> str:
    return module.source(node).lower()


def statements_of(line: cst.BaseStatement) -> Sequence[cst.BaseSmallStatement | cst.BaseCompoundStatement]:
    """The statements on a line."""
    if isinstance(line, cst.SimpleStatementLine):
        return line.body
    assert isinstance(line, cst.BaseCompoundStatement)
    return (line,)
