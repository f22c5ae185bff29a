"""HVD307 alltoall: rows of a tensor go from every rank to every other.

``dist.all_to_all_single`` needs to know how many rows arrive; the helper asks for that first, and returns it as
Horovod does where ``splits`` are given. Rows beyond the sum of the splits go to nobody, in both. Where the result may
need a gradient, it goes back the way that the rows came.

Example:

```python
rows, counts = hvd.alltoall(table, splits=splits)
```

Use instead:

```python
rows, counts = all_to_all(table, splits)
```
"""

from migrator.api import Context, Finding, Helper, RefusalError, Site, rule

from ..values import is_constant, possible_values
from .allgather import group_argument
from .allreduce import tensor_arguments
from .gradient_free import is_gradient_free
from .reduction import Arguments, rewritten

PARAMETERS = ("tensor", "splits", "name", "process_set")


@rule("HVD307", "alltoall", symbols=["horovod.torch.alltoall"])
def alltoall(site: Site, context: Context) -> Finding:
    arguments = tensor_arguments(site, *PARAMETERS)
    is_plain = is_gradient_free(site, arguments["tensor"])
    function, helper = ("all_to_all", "all_to_all") if is_plain else ("ExchangeOverRanks.apply", "exchange_over_ranks")
    rows, features = exchanged(site, arguments)
    code = f"{function}({rows})[0]" if _returns_rows_alone(arguments, site) else f"{function}({rows})"
    return rewritten(site, code, [Helper(helper, features)], arguments)


def _returns_rows_alone(arguments: Arguments, site: Site) -> bool:
    """Whether the call says nothing of how many rows go to each rank."""
    if "splits" not in arguments:
        return True
    are_missing = {is_constant(value, "None") for value in possible_values(arguments["splits"], site.module)}
    if len(are_missing) == 2:
        raise RefusalError(
            "'splits' may be None, where alltoall returns the rows alone: call it with splits in one branch, and "
            "without them in another"
        )
    return True in are_missing


def exchanged(site: Site, arguments: Arguments) -> tuple[str, frozenset[str]]:
    """The arguments of ``all_to_all``, and the features that it needs for them."""
    group, features = group_argument(site, arguments)
    splits = ", {splits}" if "splits" in arguments and not is_constant(arguments["splits"], "None") else ""
    return f"{{tensor}}{splits or (', None' if group else '')}{group}", features
