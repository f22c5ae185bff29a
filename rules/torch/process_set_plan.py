"""Where each process set of a program becomes a process group, decided before any rule runs.

A ``ProcessSet`` is a list of ranks until ``init`` or ``add_process_set`` gets it; a process group can only be made once
the process group of all ranks is joined, by all ranks in one order. So a set that ``init`` gets is made right after it:
its statement moves there, where it can; otherwise the ranks stay, and the name is bound again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from migrator.api import Context, RefusalError, Site, Template, cst, dotted_name, expression, planner

from ..followed import Followed, annotated, only_binding
from ..values import is_constant, symbol_of

SET = "horovod.torch.ProcessSet"
INIT = "horovod.torch.init"
ADD = "horovod.torch.add_process_set"
GLOBAL = "horovod.torch.global_process_set"
MEMBERS = ("rank", "size", "included", "ranks", "process_set_id", "mpi_comm")


@dataclass(frozen=True, eq=False)
class ProcessSets:
    """By the identity of each site's call: what becomes of a ProcessSet, and what is made after ``init``.

    ``moved`` are the sets whose statement goes; ``lists`` those that stay as their ranks; ``groups`` the statements
    that follow each ``init``, and ``refused`` the reasons why there are none.
    """

    moved: set[int] = field(default_factory=set)
    lists: set[int] = field(default_factory=set)
    groups: dict[int, tuple[Template, ...]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)


@planner
def plan_process_sets(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Decide for every process set, and find what is asked of them."""
    made = {id(site.call): site for site in context.uses(SET) if site.call is not None}
    plan = ProcessSets()
    for site in context.uses(ADD):
        _plan_added(site, made, plan)
    for site in context.uses(INIT):
        try:
            plan.groups[id(site.call)] = tuple(_after_init(site, made, plan))
        except RefusalError as refusal:
            plan.refused[id(site.call)] = str(refusal)
    return (plan,), list(_members(context))


def _members(context: Context) -> Iterator[Site]:
    found: dict[int, Site] = {}
    for site in (*context.uses(SET), *context.uses(ADD), *context.uses(GLOBAL)):
        followed = Followed(site.module)
        if (parameter := annotated(site)) is not None:
            followed.follow_default(parameter)
        elif site.symbol == GLOBAL or site.call is not None:
            followed.follow(site.target)
        found |= {id(member.node): member for member in followed.members(SET, MEMBERS, site)}
    yield from found.values()


def _plan_added(site: Site, made: Mapping[int, Site], plan: ProcessSets) -> None:
    """A set that ``add_process_set`` gets is its ranks until then."""
    if site.call is None or len(site.call.args) != 1:
        return
    given = _set_of(site.call.args[0].value, site, made)
    if given is not None:
        plan.lists.add(id(given.call))


def _set_of(node: cst.BaseExpression, site: Site, made: Mapping[int, Site]) -> Site | None:
    """The ProcessSet that ``node`` is, or is the name of."""
    binding = only_binding(node, site.module)
    return made.get(id(binding.value if binding is not None else node))


def _after_init(site: Site, made: Mapping[int, Site], plan: ProcessSets) -> Iterator[Template]:
    """The statements that make the groups that ``init`` is given."""
    sets = process_sets_of(site)
    if sets is None:
        return
    if site.statement is None or not site.is_discarded:
        raise RefusalError("init with process sets is not a statement of its own, after which groups could be made")
    if isinstance(sets, (cst.List, cst.Tuple)):
        for element in sets.elements:
            yield from _one(element.value, site, made, plan)
        return
    binding = only_binding(sets, site.module)
    inside = list(_sets_in(binding.value, made)) if binding is not None and binding.value is not None else []
    if not inside or binding is None or binding.scope is not site.scope:
        raise RefusalError("which process sets init is given is decided elsewhere: list them in the call")
    plan.lists.update(id(found.call) for found in inside)
    yield expression("{sets} = [dist.new_group(ranks) for ranks in {sets}]", sets=sets)


def _sets_in(node: cst.BaseExpression, made: Mapping[int, Site]) -> Iterator[Site]:
    """The sets that a list, or a comprehension, is of; none where something else is among them."""
    if isinstance(node, cst.ListComp):
        parts = [node.elt]
    else:
        parts = [element.value for element in node.elements] if isinstance(node, (cst.List, cst.Tuple)) else []
    found = [made.get(id(part)) for part in parts]
    if all(found):
        yield from (site for site in found if site is not None)


def process_sets_of(site: Site) -> cst.BaseExpression | None:
    """The process sets that a call of ``init`` makes; raises RefusalError where it starts on some ranks only."""
    arguments = site.arguments("comm", "process_sets")
    if "comm" in arguments and not is_constant(arguments["comm"], "None"):
        raise RefusalError(_reason(arguments["comm"], site))
    sets = arguments.get("process_sets")
    if sets is None or is_constant(sets, "None"):
        return None
    return None if isinstance(sets, cst.SimpleString) and sets.raw_value.lower() == "dynamic" else sets


def _reason(node: cst.BaseExpression, site: Site) -> str:
    if isinstance(node, (cst.List, cst.Tuple)):
        return "init is given the ranks that take part: start only so many with torchrun, and leave the list out"
    if is_mpi(node, site):
        return "init is given an MPI communicator: torchrun starts no MPI; start the ranks of that communicator with it"
    return "init is given ranks or an MPI communicator: start with torchrun the ranks that take part, and leave it out"


def is_mpi(node: cst.BaseExpression, site: Site) -> bool:
    """Whether ``node`` is made by mpi4py, as far as its name or its only assignment says."""
    binding = only_binding(node, site.module)
    value = binding.value if binding is not None and binding.value is not None else node
    name = value.func if isinstance(value, cst.Call) else value
    return symbol_of(name, site.module).startswith("mpi4py")


def _one(node: cst.BaseExpression, site: Site, made: Mapping[int, Site], plan: ProcessSets) -> Iterator[Template]:
    given = _set_of(node, site, made)
    if given is None or given.call is None:
        raise RefusalError("where a process set that init is given is made is not in sight")
    if given.call is node:
        plan.lists.add(id(given.call))
        return
    if given.assigned_to is None or given.scope is not site.scope:
        raise RefusalError(
            f"the process set {dotted_name(node)!r} is made in another place than init: make the group after init, in "
            "one function"
        )
    ranks = given.arguments("ranks_or_comm").get("ranks_or_comm")
    if ranks is not None and _can_move(given, site):
        plan.moved.add(id(given.call))
        yield expression("{name} = dist.new_group({ranks})", name=node, ranks=ranks)
        return
    plan.lists.add(id(given.call))
    yield expression("{name} = dist.new_group({name})", name=node)


def _can_move(given: Site, init: Site) -> bool:
    """Whether the set can be made after ``init`` instead: the same block, literal ranks, no use in between."""
    index, target = init.module.index, given.assigned_to
    assert given.call is not None
    line, end = index.line(given.call), index.line(init.target)
    if index.parent(line) is not index.parent(end) or not isinstance(target, cst.Name):
        return False
    uses = [r.node for r in index.references[target.value] if not index.before(end, r.node)]
    return not uses and all(_is_literal(argument.value) for argument in given.call.args)


def _is_literal(node: cst.BaseExpression) -> bool:
    if isinstance(node, (cst.List, cst.Tuple)):
        return all(_is_literal(element.value) for element in node.elements)
    if isinstance(node, cst.Call) and dotted_name(node.func) == "range":
        return all(_is_literal(argument.value) for argument in node.args)
    return isinstance(node, cst.Integer)
