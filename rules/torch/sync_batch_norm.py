"""HVD207 sync-batch-norm: ``hvd.SyncBatchNorm`` becomes PyTorch's own.

Both take the same arguments, compute mean and variance over the batches of all ranks with the same kernels, sum the
same two values in the backward, and leave the gradients of weight and bias to the optimizer. They differ at the edges:
``momentum=None`` is a cumulative average in PyTorch and raises in Horovod; with ``track_running_stats=False`` Horovod
synchronizes in evaluation too, PyTorch does not; an empty batch on one rank is left out by PyTorch. Both need tensors
on a GPU: Horovod always, PyTorch in training with more than one rank. (Read in the source of both: without a GPU
neither runs.)

Example:

```python
bn = hvd.SyncBatchNorm(8, eps=1e-3, momentum=0.2)
```

Use instead:

```python
bn = torch.nn.SyncBatchNorm(8, eps=1e-3, momentum=0.2)
```
"""

from migrator.api import Context, Finding, Replace, Site, cst, expression, rule

from ..values import is_constant
from .names import TORCH

ARGUMENTS = ("num_features", "eps", "momentum", "affine", "track_running_stats")


@rule("HVD207", "sync-batch-norm", symbols=["horovod.torch.SyncBatchNorm"])
def sync_batch_norm(site: Site, context: Context) -> Finding:
    notes = ["SyncBatchNorm → torch.nn.SyncBatchNorm: the same statistics and gradients"]
    if site.call is None or any(argument.star for argument in site.call.args):
        notes.append("in training with several ranks it takes tensors on a GPU only, as Horovod's")
    else:
        notes += _differences(site)
    new, message = expression("torch.nn.SyncBatchNorm"), "; ".join(notes)
    if site.call is None:
        return site.replace(new, class_="review", message=message, imports=[TORCH])
    return site.found("review", message, [Replace(site.node, new)], imports=[TORCH])


def _differences(site: Site) -> list[str]:
    arguments = site.arguments(*ARGUMENTS)
    notes = ["it takes tensors on a GPU only, as Horovod's, and raises on a CPU in training with several ranks"]
    if is_constant(arguments.get("momentum"), "None"):
        notes.append("momentum=None raised under Horovod and now is a cumulative average")
    tracks = arguments.get("track_running_stats")
    if isinstance(tracks, cst.BaseExpression) and not is_constant(tracks, "True"):
        notes.append("without running statistics an evaluation uses those of each rank's own batch, not of all")
    return notes
