"""HVD301 allreduce: the mean, or another reduction, of a tensor over all ranks, as a new tensor.

``hvd.allreduce`` averages by default, returns a new tensor and is differentiable; ``dist.all_reduce`` sums, works in
place and is not. Small functions bridge that. The mean of integers is an integer, truncated toward zero. Where the
result may need a gradient, an ``autograd.Function`` has Horovod's: the mean of the ranks' gradients.

``average=False`` and ``op=hvd.Sum`` are sums, and the program's own division stays. A name in the second place is
truthy, so it means the mean. A call whose result nobody uses only makes the ranks wait for each other.

Example:

```python
loss = hvd.allreduce(torch.tensor(loss), name="loss").item()
```

Use instead:

```python
loss = all_reduce_mean(torch.tensor(loss)).item()
```
"""

from __future__ import annotations

from dataclasses import replace

from migrator.api import Context, Finding, RefusalError, Site, cst, dotted_name, expression, rule

from .gradient_free import is_gradient_free, is_integer
from .names import DIST
from .options import operations_of
from .values import is_constant, possible_values, symbol_of

PARAMETERS = (
    "tensor",
    "average",
    "name",
    "compression",
    "op",
    "prescale_factor",
    "postscale_factor",
    "process_set",
)
MEAN = ("all_reduce_mean({tensor})", "MeanOverRanks.apply({tensor})", "all_reduce_mean", "mean_over_ranks")
SUM = ("all_reduce({tensor}, dist.ReduceOp.SUM)", "SumOverRanks.apply({tensor})", "all_reduce", "sum_over_ranks")
NAME_WORDS = ("name", "label", "tag", "desc", "metric")
OTHERS = {"Min": "MIN", "Max": "MAX", "Product": "PRODUCT"}


@rule("HVD301", "allreduce", symbols=["horovod.torch.allreduce"])
def allreduce(site: Site, context: Context) -> Finding:
    arguments = site.arguments(*PARAMETERS)
    tensor = arguments.get("tensor")
    if tensor is None:
        raise RefusalError("the call does not say what it reduces")
    for name in ("prescale_factor", "postscale_factor", "process_set"):
        if name in arguments:
            raise RefusalError(f"the reduction has a {name}")
    if "average" in arguments and "op" in arguments:
        raise RefusalError("'average' and 'op' are both given, which Horovod refuses")
    _check_compression(arguments.get("compression"), site)
    if site.is_discarded:
        message = "allreduce → dist.barrier(): nobody uses the result, so that it only made the ranks wait"
        return site.replace(expression("dist.barrier()"), class_="review", message=message, imports=[DIST])
    if "average" in arguments:
        return _by_average(site, tensor, arguments["average"])
    return _by_operation(site, tensor, arguments.get("op"))


def _check_compression(node: cst.BaseExpression | None, site: Site) -> None:
    if node is None:
        return
    symbols = {symbol_of(v, site.module).rpartition(".")[2] if v else "" for v in possible_values(node, site.module)}
    if symbols != {"none"}:
        raise RefusalError("the tensor may travel compressed")


def _by_average(site: Site, tensor: cst.BaseExpression, average: cst.BaseExpression) -> Finding:
    if is_constant(average, "False"):
        return _reduced(site, tensor, SUM)
    decided = is_constant(average, "None") or is_constant(average, "True")
    if decided or isinstance(average, (cst.BaseString, cst.FormattedString)):
        return _reduced(site, tensor, MEAN)
    if not dotted_name(average):
        raise RefusalError("whether it is a mean or a sum is computed in the call: give it a name first")
    plain = is_gradient_free(site, tensor)
    mean, total = (MEAN[0], SUM[0]) if plain else (MEAN[1], SUM[1])
    if isinstance(average, cst.Name) and any(word in average.value.lower() for word in NAME_WORDS):
        found = _reduced(site, tensor, MEAN)
        message = f"{found.message}: {average.value!r} stands in the place of 'average', where a name means the mean"
        return replace(found, class_="review", message=message)
    test = "{average} is None or {average}"
    new = expression(f"{mean} if {test} else {total}", tensor=tensor, average=average)
    message = "allreduce: the second argument is 'average', which decides at run time between mean and sum"
    helpers = [MEAN[2], SUM[2]] if plain else [MEAN[3], SUM[3]]
    return site.replace(new, class_="review", message=message, helpers=helpers, imports=[DIST])


def _by_operation(site: Site, tensor: cst.BaseExpression, op: cst.BaseExpression | None) -> Finding:
    found = operations_of(op, site.module) if op is not None else {"Average"}
    if found == {"Average"}:
        return _reduced(site, tensor, MEAN)
    if found == {"Sum"}:
        return _reduced(site, tensor, SUM)
    if len(found) == 1 and (name := OTHERS.get(next(iter(found)))):
        if not is_gradient_free(site, tensor):
            raise RefusalError(f"the {name.lower()} of a tensor that may need a gradient")
        new = expression(f"all_reduce({{tensor}}, dist.ReduceOp.{name})", tensor=tensor)
        return site.replace(new, imports=[DIST], helpers=["all_reduce"])
    raise RefusalError("which reduction 'op' asks for is not certain")


def _reduced(site: Site, tensor: cst.BaseExpression, how: tuple[str, str, str, str]) -> Finding:
    plain, differentiable, function, class_name = how
    if is_gradient_free(site, tensor):
        new, helper = expression(plain, tensor=tensor), function
    else:
        new, helper = expression(differentiable, tensor=tensor), class_name
    imports = [DIST] if "dist." in new.text else []
    if how is MEAN and is_integer(tensor, site.module):
        message = "allreduce → the mean of integers is an integer, truncated toward zero, as Horovod's"
        return site.replace(new, class_="review", message=message, helpers=[helper], imports=imports)
    return site.replace(new, helpers=[helper], imports=imports)
