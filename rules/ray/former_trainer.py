"""HVD552 ray-backend: ``ray.train.Trainer(backend="horovod")`` takes its backend "torch".

The ``Trainer`` of Ray 1 starts workers for any backend, which is named by a string. With "torch" it joins
their process group; ``start``, ``run``, which returns a list with the result of each worker, and ``shutdown`` stay.
Ray 2 has ``TorchTrainer`` in its place, for whatever backend.

Example:

```python
trainer = Trainer(backend="horovod", num_workers=4, use_gpu=True)
```

Use instead:

```python
trainer = Trainer(backend="torch", num_workers=4, use_gpu=True)
```
"""

from __future__ import annotations

from collections.abc import Iterable

from migrator.api import Context, Finding, RefusalError, Replace, Site, cst, expression, planner, rule

from ..tensorflow.names import is_tensorflow
from .names import OLD_TRAINER, PREPARES, backends, prepares_model


@planner
def plan_backends(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the trainers whose backend is named by a string."""
    return (), [site for module in context.modules for site in backends(module)]


@rule("HVD552", "ray-backend", symbols=[OLD_TRAINER])
def backend(site: Site, context: Context) -> Finding:
    assert isinstance(site.node, cst.SimpleString)
    if is_tensorflow(context):
        raise RefusalError("the function trains with TensorFlow, which has no LOCAL_RANK under Ray's backend for it")
    if prepares_model(context):
        raise RefusalError(PREPARES)
    quote = site.node.quote
    message = (
        "backend='horovod' → 'torch', whose workers have joined the process group when the function starts; Ray 2 "
        "has TorchTrainer(f, scaling_config=ScalingConfig(num_workers=N)).fit() in place of Trainer"
    )
    return site.found("review", message, [Replace(site.node, expression(f"{quote}torch{quote}"))])
