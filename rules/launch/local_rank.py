"""HVD104 local-rank: the rank on this host comes from the launcher.

Horovod asks its controller; torchrun, TorchDistributor and the launcher of TensorFlow workers export LOCAL_RANK and
LOCAL_WORLD_SIZE. Without a launcher the program runs alone, as local rank 0 of 1. Under TorchDistributor on a cluster
every Spark task is a host of its own to torchrun: there the number is right as the index of the device, and 0 on
every rank.

Example:

```python
torch.cuda.set_device(hvd.local_rank())
```

Use instead:

```python
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
```
"""

from migrator.api import Context, Finding, RefusalError, Site, cst, dotted_name, expression, rule

from ..spark.names import starts_ranks
from ..torch.names import OS

VALUES = {
    "local_rank": 'int(os.environ.get("LOCAL_RANK", 0))',
    "local_size": 'int(os.environ.get("LOCAL_WORLD_SIZE", 1))',
}
SYMBOLS = [f"horovod.{library}.{name}" for library in ("tensorflow", "torch") for name in VALUES]
DEVICES = ("set_device", "device", "cuda", "to", "set_visible_devices")
KEYWORDS = ("device", "device_id", "device_ids", "output_device", "map_location")
_PARTS = (
    *(cst.FormattedStringExpression, cst.FormattedString, cst.BinaryOperation),
    *(cst.List, cst.Tuple, cst.Element, cst.Subscript, cst.SubscriptElement, cst.Index),
)


@rule("HVD104", "local-rank", symbols=SYMBOLS)
def local_rank(site: Site, context: Context) -> Finding:
    value = VALUES[site.short]
    if site.call is None:
        return site.replace(expression(f"lambda: {value}"), imports=[OS])
    if site.call.args:
        raise RefusalError(f"{site.short} takes no arguments")
    if _is_made_int(site):
        value = value.removeprefix("int(").removesuffix(")")
    if any(map(_is_a_spark_job, starts_ranks(context))) and not _is_device(site):
        others = "0 on every rank" if site.short == "local_rank" else "1 on every rank"
        message = f"{site.short} → {value}: in a Spark job every task is a host of its own, so it is {others}"
        return site.replace(expression(value), class_="review", message=message, imports=[OS])
    return site.replace(expression(value), imports=[OS])


def _is_a_spark_job(launch: Site) -> bool:
    """Whether the ranks may be tasks of a Spark job: all but ``HorovodRunner(np=-n)``, which stays on the driver."""
    arguments = launch.call.args if launch.call is not None else ()
    np = next((a.value for a in arguments if a.keyword is not None and a.keyword.value == "np"), None)
    return not (isinstance(np, cst.UnaryOperation) and isinstance(np.operator, cst.Minus))


def _is_made_int(site: Site) -> bool:
    """Whether the program makes an integer of the number, as it does of any that may be a string."""
    argument = site.module.index.parent(site.target)
    call = site.module.index.parent(argument) if isinstance(argument, cst.Arg) else None
    return isinstance(call, cst.Call) and dotted_name(call.func) == "int" and len(call.args) == 1


def _is_device(site: Site) -> bool:
    """Whether the number is handed to something that takes the index of a device, itself or by its only name."""
    target = site.assigned_to
    if not isinstance(target, cst.Name):
        return _is_argument_of_device(site.target, site)
    home = site.scope.home(target.value)
    uses = [r.node for r in site.module.index.references[target.value] if r.scope.home(target.value) is home]
    return bool(uses) and all(_is_argument_of_device(use, site) for use in uses)


def _is_argument_of_device(node: cst.CSTNode, site: Site) -> bool:
    """Whether ``node`` is given to what takes a device, by itself, in a list or in the text of a device's name."""
    index = site.module.index
    argument = index.parent(node)
    while isinstance(argument, _PARTS):
        argument = index.parent(argument)
    call = index.parent(argument) if isinstance(argument, cst.Arg) else None
    if not isinstance(call, cst.Call) or not isinstance(argument, cst.Arg):
        return False
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted_name(call.func)
    if name in ("str", "int", "format"):
        return _is_argument_of_device(call, site)
    return name in DEVICES or (argument.keyword is not None and argument.keyword.value in KEYWORDS)
