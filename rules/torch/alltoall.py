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

from migrator.api import Context, Finding, Helper, Site, rule

from .allgather import group_argument
from .allreduce import tensor_arguments
from .collective_order import by_name
from .gradient_free import is_gradient_free
from .reduction import Arguments, rewritten
from .values import is_constant

PARAMETERS = ("tensor", "splits", "name", "process_set")


@rule("HVD307", "alltoall", symbols=["horovod.torch.alltoall"])
def alltoall(site: Site, context: Context) -> tuple[Finding, ...]:
    arguments = tensor_arguments(site, *PARAMETERS)
    is_plain = is_gradient_free(site, arguments["tensor"])
    function, helper = ("all_to_all", "all_to_all") if is_plain else ("ExchangeOverRanks.apply", "exchange_over_ranks")
    rows, features = exchanged(site, arguments)
    code = f"{function}({rows})" if has_splits(arguments) else f"{function}({rows})[0]"
    return rewritten(site, code, [Helper(helper, features)], arguments), *by_name(site, arguments)


def has_splits(arguments: Arguments) -> bool:
    """Whether the call says how many rows go to each rank."""
    return "splits" in arguments and not is_constant(arguments["splits"], "None")


def exchanged(site: Site, arguments: Arguments) -> tuple[str, frozenset[str]]:
    """The arguments of ``all_to_all``, and the features that it needs for them."""
    group, features = group_argument(site, arguments)
    splits = ", {splits}" if has_splits(arguments) else ""
    return f"{{tensor}}{splits or (', None' if group else '')}{group}", features
