"""HVD551 horovod-trainer: HorovodTrainer becomes TorchTrainer, which takes the same arguments.

Ray's workers have joined the process group before the function runs, so ``hvd.init()`` and ``hvd.shutdown()`` go where
the function runs nowhere else; the model is wrapped in DDP by the code, as in any migrated program, and never by
``prepare_model`` besides. ``HorovodConfig`` is about ssh and the start of Horovod: none of it means anything to a
``TorchConfig``, whose ``timeout_s`` limits every collective.

Example:

```python
HorovodTrainer(train, horovod_config=HorovodConfig(), scaling_config=ScalingConfig(num_workers=4)).fit()
```

Use instead:

```python
TorchTrainer(train, torch_config=TorchConfig(), scaling_config=ScalingConfig(num_workers=4)).fit()
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrator.api import Context, Edit, Finding, RefusalError, Replace, Site, Template, cst, expression, rule

from ..tensorflow.names import is_tensorflow
from .names import PREPARES, SCALING_CONFIG, TENSORFLOW, TORCH_CONFIG, TORCH_TRAINER, TRAINER, prepares_model

CONFIG = "ray.train.horovod.HorovodConfig"


@rule("HVD551", "horovod-trainer", symbols=[TRAINER])
def horovod_trainer(site: Site, context: Context) -> Finding:
    if is_tensorflow(context):
        raise RefusalError(TENSORFLOW)
    if prepares_model(context):
        raise RefusalError(PREPARES)
    if _is_base(site):
        raise RefusalError(
            "a class derives from HorovodTrainer: derive it from TorchTrainer, which has no Horovod in it"
        )
    arguments = site.call.args if site.call is not None else ()
    if any(argument.star for argument in arguments) and any("horovod_config" in m.text for m in context.modules):
        raise RefusalError("whether horovod_config is among the arguments cannot be determined from the code")
    edits: list[Edit] = [Replace(site.node, expression("TorchTrainer")), *_renamed(arguments)]
    imports, scaling = [TORCH_TRAINER], next(_dictionaries(arguments), None)
    if scaling is not None:
        edits.append(Replace(scaling, _config(scaling)))
        imports.append(SCALING_CONFIG)
    message = "HorovodTrainer → TorchTrainer, whose workers have joined the process group when the function starts"
    return site.found("review", message, edits, imports=imports)


def _dictionaries(arguments: Sequence[cst.Arg]) -> Iterator[cst.Dict]:
    """The literal dictionary that an old program gives as scaling_config, which is an object now."""
    for argument in arguments:
        named = argument.keyword is not None and argument.keyword.value == "scaling_config"
        if named and isinstance(argument.value, cst.Dict):
            yield argument.value


def _config(scaling: cst.Dict) -> Template:
    parts: dict[str, cst.CSTNode] = {}
    for element in scaling.elements:
        name = (
            element.key.raw_value
            if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString)
            else ""
        )
        if not isinstance(name, str) or not name.isidentifier():
            raise RefusalError("scaling_config is a dictionary, which Ray takes no more: give it ScalingConfig(...)")
        parts[name] = element.value
    return Template(f"ScalingConfig({', '.join(f'{name}={{{name}}}' for name in parts)})", parts)


def _is_base(site: Site) -> bool:
    argument = site.module.index.parent(site.node)
    holder = site.module.index.parent(argument) if isinstance(argument, cst.Arg) else None
    return isinstance(holder, cst.ClassDef)


def _renamed(arguments: Sequence[cst.Arg]) -> Iterator[Edit]:
    for argument in arguments:
        if argument.keyword is not None and argument.keyword.value == "horovod_config":
            yield Replace(argument.keyword, expression("torch_config"))


@rule("HVD551", "horovod-trainer", symbols=[CONFIG])
def horovod_config(site: Site, context: Context) -> Finding:
    if site.call is None:
        return site.replace(expression("TorchConfig"), class_="review", imports=[TORCH_CONFIG])
    names = [a.keyword.value if a.keyword is not None else "" for a in site.call.args]
    message = "HorovodConfig → TorchConfig"
    if "" in names:
        raise RefusalError("the arguments of HorovodConfig have no names here: say what they set")
    if names:
        message += f"; {', '.join(names)} {'goes' if len(names) == 1 else 'go'} with Horovod's own start"
    if "timeout_s" in names:
        message += ": timeout_s of TorchConfig would limit every collective (30 minutes without it)"
    return site.replace(expression("TorchConfig()"), class_="review", message=message, imports=[TORCH_CONFIG])
