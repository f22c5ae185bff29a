"""HVD817 tensorflow-leftovers: what Horovod once asked of ``compile`` goes.

Horovod for TensorFlow 2.0 asked for ``experimental_run_tf_function=False``, so that Keras would let it reduce
gradients. Nothing reads it since TensorFlow 2.4, and Keras 3 refuses it.

Example:

```python
model.compile(loss="mse", optimizer=optimizer, experimental_run_tf_function=False)
```

Use instead:

```python
model.compile(loss="mse", optimizer=optimizer)
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from migrator.api import Context, Drop, Finding, Module, Site, cst, planner, rule

from .names import is_tensorflow

ARGUMENT = "horovod.tensorflow.keras.compile.experimental_run_tf_function"
KEYWORD = "experimental_run_tf_function"


@rule("HVD817", "tensorflow-leftovers", symbols=[ARGUMENT])
def argument(site: Site, context: Context) -> Finding:
    assert site.call is not None
    dropped = [Drop(a) for a in site.call.args if a.keyword is not None and a.keyword.value == KEYWORD]
    return site.found(
        "exact", f"{KEYWORD} goes: it was for Horovod with TensorFlow 2.0, and Keras 3 refuses it", dropped
    )


@planner
def plan_leftovers(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the calls of ``compile`` that are given it."""
    if not is_tensorflow(context):
        return (), ()
    return (), [site for module in context.modules for site in _given(module)]


def _given(module: Module) -> Iterator[Site]:
    for node in module.index.attributes["compile"]:
        call = module.index.parent(node)
        if isinstance(call, cst.Call) and any(a.keyword is not None and a.keyword.value == KEYWORD for a in call.args):
            yield Site(ARGUMENT, node, call, module, module.index.scope_of(node), module.index.scope)
