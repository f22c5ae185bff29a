"""What is known, before any rule runs, of the places where a program hands functions to Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from migrator.api import Context, InPlace, Needs, NextStep, Site, cst, planner

from ..tensorflow.names import is_tensorflow
from .flow import Use, uses_of
from .names import LAUNCHERS, RUN, RUNNER, SPARK_RUN, named_launchers, starts_ranks
from .processes import processes_of
from .shipping import SHIPPED, Shipped, handed_over, taken_along


@dataclass(frozen=True, eq=False)
class Runs:
    """Of each ``runner.run``, whether several ranks may share the driver; of runners, where they go out of sight."""

    on_driver: Mapping[int, bool]
    hidden: Mapping[int, cst.CSTNode]


@planner
def plan_launches(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find where runners are used, and what the functions that are run take along from the driver."""
    on_driver: dict[int, bool] = defaultdict(bool)
    hidden: dict[int, cst.CSTNode] = {}
    runs: dict[int, Site] = {}
    for site in context.uses(RUNNER):
        several = _may_share_the_driver(site)
        for use in uses_of(site.call, site.module) if site.call is not None else ():
            if use.attribute is not None and use.attribute.attr.value == "run":
                runs.setdefault(id(use.attribute), _run(use, site, context))
                on_driver[id(use.attribute)] |= several
            else:
                hidden.setdefault(id(site.node), use.node)
    named = list(named_launchers(context))
    reasons, shipped = _shipped([*runs.values(), *named, *context.uses(SPARK_RUN)])
    plans = [Runs(on_driver, hidden), Shipped(reasons), *_next_steps(context), *_in_place(context)]
    return plans, [*runs.values(), *named, *shipped]


def _may_share_the_driver(site: Site) -> bool:
    arguments = site.call.args if site.call is not None else ()
    nodes = [a.value for a in arguments if not a.star and (a.keyword is None or a.keyword.value == "np")]
    return not nodes or processes_of(nodes[0], site.module).may_share_the_driver


def _run(use: Use, site: Site, context: Context) -> Site:
    """The site of ``runner.run``; what it needs is imported where the function that runs imports Horovod."""
    assert use.attribute is not None
    index = use.module.index
    call = index.parent(use.attribute)
    call = call if isinstance(call, cst.Call) and call.func is use.attribute else None
    homes = [other.home for other in context.sites if other.module is use.module and other.symbol not in LAUNCHERS]
    home = homes[0] if homes else site.home if use.module is site.module else index.scope
    return Site(RUN, use.attribute, call, use.module, index.scope_of(use.attribute), home)


def _shipped(runs: Iterable[Site]) -> tuple[dict[int, str], list[Site]]:
    """What there is to say of what goes to the workers, by the identity of the nodes, and a site for each."""
    reasons: dict[int, str] = {}
    sites: list[Site] = []
    for run in runs:
        for node, reason in _of_arguments(run):
            if id(node) not in reasons:
                reasons[id(node)] = reason
                assert isinstance(node, cst.BaseExpression)
                index = run.module.index
                sites.append(Site(SHIPPED, node, None, run.module, index.scope_of(node), index.scope))
    return reasons, sites


def _of_arguments(run: Site) -> Iterator[tuple[cst.CSTNode, str]]:
    arguments = run.call.args if run.call is not None else ()
    for place, argument in enumerate(arguments):
        keyword = argument.keyword.value if argument.keyword is not None else ""
        if keyword in ("main", "fn") or (not keyword and not argument.star and place == 0):
            yield from taken_along(argument.value, run.module)
        elif run.symbol == RUN or keyword in ("args", "kwargs") or (not keyword and place in (1, 2)):
            for value in _elements(argument.value):
                yield from handed_over(value, run.module)


def _elements(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(value, (cst.Tuple, cst.List)):
        return [element.value for element in value.elements]
    return [element.value for element in value.elements] if isinstance(value, cst.Dict) else [value]


def _next_steps(context: Context) -> Iterator[NextStep | Needs]:
    """How a program that starts its ranks itself is started now, and what it needs for that."""
    runner = "MirroredStrategyRunner" if is_tensorflow(context) else "TorchDistributor"
    for path in dict.fromkeys(site.module.path for site in starts_ranks(context)):
        yield NextStep(f"run {path} on Spark as before: {runner} starts the ranks")
    needs = ("spark-tensorflow-distributor",) if is_tensorflow(context) else ("torch>=2.1", "pyspark>=3.4")
    yield from (Needs(need) for need in needs if any(starts_ranks(context)))


def _in_place(context: Context) -> Iterator[InPlace]:
    """The files whose functions go to the workers by value: what they call must go along."""
    for path in dict.fromkeys(site.module.path for site in starts_ranks(context)):
        yield InPlace(path)
