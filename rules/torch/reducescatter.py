"""HVD304 reducescatter: each rank's rows of a reduction over all ranks.

``hvd.reducescatter`` averages by default and lets the number of rows be any: the first ranks get the rows that are left
over. ``dist.reduce_scatter_tensor`` takes equal parts only, and Gloo has it in recent releases only; the helper reduces
the whole tensor and takes the rank's rows. Where the result may need a gradient, it has Horovod's: the gradients of all
ranks' rows, one after the other.

Example:

```python
rows = hvd.reducescatter(table, op=hvd.Sum)
```

Use instead:

```python
rows = reduce_scatter(table, dist.ReduceOp.SUM)
```
"""

from migrator.api import Context, Finding, Helper, RefusalError, Site, rule

from .allreduce import tensor_arguments, waited
from .gradient_free import is_gradient_free
from .reduction import Arguments, Reduction, reduction_of, rewritten

SCATTERING = ("name", "op", "process_set", "prescale_factor", "postscale_factor")
COMPRESSING = (SCATTERING[0], "compression", *SCATTERING[1:])


@rule("HVD304", "reducescatter", symbols=["horovod.torch.reducescatter"])
def reducescatter(site: Site, context: Context) -> Finding:
    arguments = tensor_arguments(site, "tensor", *COMPRESSING)
    if site.is_discarded:
        return waited(site, arguments)
    reduction = scattering(arguments, site)
    code, helper = scattered("{tensor}", reduction, is_gradient_free(site, arguments["tensor"]))
    return rewritten(site, code, [helper], arguments, reduction.operation.note)


def scattering(arguments: Arguments, site: Site) -> Reduction:
    """The reduction of a reducescatter, which Horovod has for the mean and the sum only."""
    reduction = reduction_of(arguments, site)
    if reduction.operation.known not in ("", "AVG", "SUM"):
        raise RefusalError("Horovod refuses a reducescatter by anything but Average and Sum")
    return reduction


def scattered(tensor: str, reduction: Reduction, is_plain: bool) -> tuple[str, Helper]:
    """Code that returns this rank's rows of ``tensor``, without a gradient where the tensor ``is_plain``."""
    if is_plain:
        return f"reduce_scatter({tensor}{reduction.keywords})", reduction.helper("reduce_scatter")
    code = f"ReduceScatterOverRanks.apply({tensor}{reduction.positions})"
    return code, reduction.helper("reduce_scatter_over_ranks")
