"""HVD701 elastic: elastic training is torchrun's, with checkpoints.

Horovod keeps the processes that survive and the state that they last committed to memory. torchrun restarts every
process when hosts come or go (``--nnodes=MIN:MAX --max-restarts=N``): the script starts from the top, so what it needs
must be in a file. That is another structure, which a person gives the program: load the latest checkpoint at the
start, save one on rank 0 where ``state.commit()`` was. Each use is named with what takes its place.

Where elastic training is one branch of a flag (``if args.elastic: ... else: ...``), the other branch is migrated, and
the program raises a clear error when the flag asks for it.

Example:

```python
if args.elastic:
    hvd.elastic.run(train)(hvd.elastic.TorchState(model=model, epoch=0))
else:
    train(model)
```

Use instead:

```python
if args.elastic:
    raise NotImplementedError("elastic training is torchrun's: --nnodes=MIN:MAX --max-restarts=N, with checkpoints")
else:
    train(model)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrator.api import Context, Edit, Finding, Insert, RefusalError, Remove, Replace, Site, cst, expression, rule

from .elastic_plan import RUN, RUN_FN, SAMPLER, STATE, Elastic, statements_of

INSTEAD = {
    RUN: (
        "elastic.run calls the function again in the processes that survive; torchrun restarts the script: load the "
        "latest checkpoint at its start, and start it with --nnodes=MIN:MAX --max-restarts=N"
    ),
    RUN_FN: (
        "elastic.run_fn is elastic.run with a reset of one's own; torchrun restarts the script: do at its start what "
        "the reset does"
    ),
    STATE: (
        "TorchState keeps its last commit in memory, which a restart by torchrun loses: keep the model, the "
        "optimizer and the counters in a checkpoint file"
    ),
    f"{STATE}.commit": (
        "commit() copies the state to memory and looks for new hosts: save a checkpoint on rank 0 here, for the "
        "script to load when torchrun restarts it"
    ),
    f"{STATE}.save": "save() copies the state to memory: save a checkpoint on rank 0 here, with torch.save",
    f"{STATE}.restore": (
        "restore() goes back to the last commit in memory: load the latest checkpoint at the start of the script"
    ),
    f"{STATE}.sync": (
        "sync() gives ranks that joined the state of rank 0: after a restart by torchrun all ranks load one checkpoint"
    ),
    f"{STATE}.check_host_updates": (
        "check_host_updates() raises where hosts came or went: torchrun watches them itself, so take the call out"
    ),
    f"{STATE}.register_reset_callbacks": (
        "register_reset_callbacks() names what runs once the number of ranks has changed: call it at the start of "
        "the script, which torchrun runs again"
    ),
    f"{STATE}.on_reset": "on_reset() runs the reset callbacks: call them at the start of the script instead",
    f"{STATE}.on_hosts_updated": (
        "on_hosts_updated() takes a message of Horovod's driver, which there is no more: take the call out"
    ),
    f"{STATE}.reset": (
        "reset() prepares the state for another number of ranks: do so at the start of the script, from the checkpoint"
    ),
    "horovod.torch.elastic.StateHandler": (
        "StateHandler says how a TorchState saves one kind of object: put the object's state_dict into the checkpoint"
    ),
    "horovod.torch.elastic.ModelStateHandler": (
        "ModelStateHandler copies and broadcasts a model's state: put model.state_dict() into the checkpoint"
    ),
    "horovod.torch.elastic.OptimizerStateHandler": (
        "OptimizerStateHandler copies and broadcasts optimizer state: put optimizer.state_dict() into the checkpoint"
    ),
    "horovod.torch.elastic.SamplerStateHandler": (
        "SamplerStateHandler copies and broadcasts a sampler's state: put the epoch and position into the checkpoint"
    ),
    "horovod.torch.elastic.get_handler_registry": (
        "get_handler_registry lists how a TorchState saves each kind of object: a checkpoint needs no such list"
    ),
    "horovod.torch.elastic.set_handler_registry": (
        "set_handler_registry teaches TorchState to save objects of one's own: put their state into the checkpoint"
    ),
    "horovod.common.elastic.State": (
        "State is the base of elastic states of one's own: write its fields to a checkpoint file"
    ),
    "horovod.torch.elastic.ObjectState": (
        "ObjectState keeps plain objects between commits: write them to the checkpoint file"
    ),
    "horovod.common.elastic.notification_manager": (
        "notification_manager listens to Horovod's driver for hosts that come or go: torchrun's agents do so now"
    ),
    SAMPLER: (
        "ElasticSampler leaves out what was seen before a reset: take a DistributedSampler, which starts the epoch "
        "anew after a restart, or keep the position in the checkpoint"
    ),
    f"{SAMPLER}.set_epoch": (
        "ElasticSampler.set_epoch() ends an epoch and forgets what was seen; a DistributedSampler's is called at the "
        "start of each epoch"
    ),
    f"{SAMPLER}.record_batch": (
        "record_batch() counts what was seen, for the rest of the epoch after a reset: keep the batch number in the "
        "checkpoint instead"
    ),
    f"{SAMPLER}.reset": (
        "ElasticSampler.reset() shares out what is left of the epoch among the ranks: a new DistributedSampler does "
        "so after a restart, from the start of the epoch"
    ),
    f"{SAMPLER}.state_dict": "ElasticSampler.state_dict() is the epoch and the position: save both as numbers",
    f"{SAMPLER}.load_state_dict": (
        "ElasticSampler.load_state_dict() continues within an epoch: read the epoch from the checkpoint and set it, "
        "with set_epoch, on a DistributedSampler"
    ),
}
RAISES = (
    'raise NotImplementedError("elastic training is torchrun\'s: --nnodes=MIN:MAX --max-restarts=N, with checkpoints")'
)


@rule("HVD701", "elastic", symbols=list(INSTEAD))
def elastic(site: Site, context: Context) -> Finding:
    plan = next(context.plan(Elastic))
    block = plan.branches.get(id(site.node))
    if block is None:
        raise RefusalError(INSTEAD[site.symbol])
    message = f"{site.short} goes: the program raises an error when the flag asks for elastic training"
    edits = _raising(block.body) if plan.first[id(block)] is site.node else ()
    return site.found("review", message, edits)


def _raising(statements: Sequence[cst.BaseStatement]) -> Iterator[Edit]:
    """Edits that leave an error of a block."""
    parts = [part for line in statements for part in statements_of(line)]
    if isinstance(parts[0], cst.BaseSmallStatement):
        yield Replace(parts[0], expression(RAISES))
        yield from map(Remove, parts[1:])
    else:
        yield Insert(parts[0], "before", expression(RAISES))
        yield from map(Remove, parts)
