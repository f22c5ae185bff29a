"""HVD812 gradient-tape: gradients are averaged when the tape has computed them.

``hvd.DistributedGradientTape`` averages in ``gradient``; the plain tape does not, so the call of a function goes around
``gradient``. Where the tape is handed on, or wrapped under a condition, a function makes the tape itself average.
Sparse gradients stay sparse unless ``sparse_as_dense`` was asked for (in Keras 3, which does not add up duplicate rows,
they become dense), and None stays None.

Example:

```python
tape = hvd.DistributedGradientTape(tape)
gradients = tape.gradient(loss, model.trainable_variables)
```

Use instead:

```python
gradients = average_over_workers(tape.gradient(loss, model.trainable_variables))
```
"""

from __future__ import annotations

from collections.abc import Sequence

from migrator.api import Class, Context, Finding, RefusalError, Replace, Site, cst, rule

from .distributed_optimizer import ONLY_SUM_AND_MEAN
from .names import TAPE, keras_features
from .options import is_one, options_of
from .unwrapped import unwrapped

PARAMETERS = (
    "gradtape", "device_dense", "device_sparse", "compression", "sparse_as_dense", "op", "gradient_predivide_factor",
    "num_groups", "groups", "process_set", "scale_local_gradients",
)  # fmt: skip
AROUND = {"Average": "average_over_workers", "Sum": "sum_over_workers"}
CHANGING = {"Average": "averaging_tape", "Sum": "adding_tape"}


@rule("HVD812", "gradient-tape", symbols=[TAPE])
def gradient_tape(site: Site, context: Context) -> Finding:
    arguments = site.arguments(*PARAMETERS)
    if "gradtape" not in arguments:
        raise RefusalError("the call does not say which tape it wraps")
    options = options_of(arguments, site)
    if options.operation not in AROUND:
        raise RefusalError(ONLY_SUM_AND_MEAN)
    is_exact = is_one(arguments.get("gradient_predivide_factor"))
    class_: Class
    class_, rounded = ("exact", "") if is_exact else ("review", "; the last digits can differ")
    calls = _gradients(site)
    if calls is None:
        new = options.call(CHANGING[options.operation], arguments["gradtape"])
        message = f"DistributedGradientTape → {site.preview(new)}{rounded}"
        return site.replace(
            new, class_=class_, message=message, helpers=[options.helper("averaging_tape", keras_features(context))]
        )
    message = f"DistributedGradientTape goes: gradients are averaged where the tape has computed them{rounded}"
    wraps = [Replace(call, options.call(AROUND[options.operation], call)) for call in calls]
    edits = [unwrapped(arguments["gradtape"], site), *wraps]
    return site.found(
        "exact", message, edits, helpers=[options.helper("average_over_workers", keras_features(context))]
    )


def _gradients(site: Site) -> Sequence[cst.Call] | None:
    """The calls of ``gradient`` on the wrapped tape, if nothing else is done with it and all of them are behind it."""
    index = site.module.index
    attribute = index.parent(site.target)
    if isinstance(attribute, cst.Attribute):
        return _calls([attribute], site)
    name, block = _name_and_block(site)
    if name is None:
        return None
    home = site.scope.home(name)
    uses = [r.node for r in index.references[name] if r.scope.home(name) is home and r.scope is site.scope]
    others = [r for r in index.references[name] if r.scope.home(name) is home and r.scope is not site.scope]
    behind = [use for use in uses if index.before(site.target, use) and site.target not in index.ancestors(use)]
    again = [b for b in (home.bindings[name] if home else ()) if index.before(site.target, b.node)]
    is_in_block = all(any(holder is block for holder in index.ancestors(use)) for use in behind)
    if others or not behind or not is_in_block or len(again) > _own_bindings(site):
        return None
    return _calls([index.parent(use) for use in behind], site)


def _own_bindings(site: Site) -> int:
    """How many bindings of the tape's name stand behind the call that wraps it: that of ``with ... as tape``."""
    return int(isinstance(site.module.index.parent(site.target), cst.WithItem))


def _name_and_block(site: Site) -> tuple[str | None, cst.CSTNode | None]:
    """The name of the wrapped tape, and the block in which it has it."""
    index = site.module.index
    parent = index.parent(site.target)
    if isinstance(parent, cst.WithItem) and parent.asname is not None and isinstance(parent.asname.name, cst.Name):
        return parent.asname.name.value, index.parent(index.line(site.target))
    target = site.assigned_to
    if isinstance(target, cst.Name):
        return target.value, index.parent(index.line(site.target))
    return None, None


def _calls(attributes: Sequence[cst.CSTNode | None], site: Site) -> Sequence[cst.Call] | None:
    found = []
    for attribute in attributes:
        if not isinstance(attribute, cst.Attribute) or attribute.attr.value != "gradient":
            return None
        call = site.module.index.parent(attribute)
        if not isinstance(call, cst.Call) or call.func is not attribute:
            return None
        found.append(call)
    return found
