"""HVD579 not-canonical: what keeps a program from training by an engine of DeepSpeed.

An engine takes over the whole step: it averages, clips, steps and zeroes. That can be written for the canonical loop
only, where one function calls the model, ``loss.backward()``, ``optimizer.step()`` and ``zero_grad()``. Mixed
precision, closures, several optimizers, sums, process sets, sparse gradients, ``join`` and elastic training, and code
that reads gradients by itself are not rewritten: each such use is named. ``--target ddp`` can migrate most such
programs.

Example:

```python
scaler.scale(loss).backward()
scaler.step(optimizer)
```

Use instead: DeepSpeed's own mixed precision, ``"fp16": {"enabled": True}`` in the configuration.
"""

from migrator.api import Context, Finding, RefusalError, Site, rule

from .engine import Obstacle
from .names import OBSTACLE


@rule("HVD579", "not-canonical", symbols=[OBSTACLE])
def not_canonical(site: Site, context: Context) -> Finding:
    reasons = (found.reason for found in context.plan(Obstacle) if found.node in (site.node, site.target))
    raise RefusalError(f"--target deepspeed: {next(reasons)}")
