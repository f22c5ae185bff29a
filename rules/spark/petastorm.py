"""HVD402 petastorm-shards: the shards of Petastorm, which differ in length.

``cur_shard`` and ``shard_count`` become rank and number of ranks, and stay where they are read. Petastorm shares row
groups out, so that a rank may see more rows than another: read once (``num_epochs=1``), ranks end at different times,
and one that is done leaves the others waiting in a collective, under Horovod as now. A rank that is read on the driver
is the driver's, on every worker.

Example:

```python
converter.make_torch_dataloader(num_epochs=1, cur_shard=hvd.rank(), shard_count=hvd.size())
```

Use instead:

```python
converter.make_torch_dataloader(num_epochs=None, cur_shard=dist.get_rank(), shard_count=dist.get_world_size())
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from migrator.api import Context, Finding, Site, cst, dotted_name, planner, rule

from .names import starts_ranks

SHARDED = "petastorm.sharded"
RANKS = ("horovod.torch.rank", "horovod.tensorflow.rank")
ONCE_UNLESS_TOLD = ("make_reader", "make_batch_reader")


@planner
def plan_shards(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the readers that take a rank for their shard."""
    found = {id(call): site for symbol in RANKS for site in context.uses(symbol) for call, site in _readers(site)}
    return (), list(found.values())


def _readers(site: Site) -> Iterator[tuple[cst.Call, Site]]:
    index = site.module.index
    name = site.assigned_to
    named = index.references[name.value] if isinstance(name, cst.Name) else ()
    for node in (site.target, *(reference.node for reference in named)):
        argument = index.parent(node)
        call = index.parent(argument) if isinstance(argument, cst.Arg) else None
        if isinstance(argument, cst.Arg) and isinstance(call, cst.Call) and _keyword(argument) == "cur_shard":
            yield call, Site(SHARDED, call, call, site.module, site.scope, site.home)


def _keyword(argument: cst.Arg) -> str:
    return argument.keyword.value if argument.keyword is not None else ""


@rule("HVD402", "petastorm-shards", symbols=[SHARDED])
def shards(site: Site, context: Context) -> tuple[Finding, ...]:
    assert site.call is not None
    reasons = []
    if _reads_once(site.call, site):
        reasons.append(
            "shards differ in length: ranks that read them a fixed number of times end at different steps, and wait "
            "for one another: num_epochs=None and a fixed number of steps let all end together"
        )
    if site.scope.kind == "module" and any(starts_ranks(context)):
        reasons.append("the rank is read on the driver, and is the same on every worker: read it in the function")
    return tuple(site.found("review", reason) for reason in reasons)


def _reads_once(call: cst.Call, site: Site) -> bool:
    """Whether a reader ends: it is told how often to read, or reads once unless it is told."""
    if any(argument.star for argument in call.args):
        return False
    epochs = next((argument.value for argument in call.args if _keyword(argument) == "num_epochs"), None)
    if epochs is None:
        return dotted_name(call.func).rpartition(".")[2] in ONCE_UNLESS_TOLD
    return not (isinstance(epochs, cst.Name) and epochs.value == "None")
