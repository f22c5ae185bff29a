"""HVD575 deepspeed-clip: gradients are clipped by the engine's step, to the norm of its configuration.

The norm must be known where the engine is made. ``if norm: clip(...)`` becomes ``norm or 0.0``, and 0.0 clips nothing.

Example:

```python
optimizer.synchronize()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
with optimizer.skip_synchronize():
    optimizer.step()
```

Use instead: ``"gradient_clipping": 1.0`` in the configuration, and

```python
engine.step()
```
"""

from migrator.api import Context, Finding, Remove, Site, rule

from ..torch.plan import Plan
from .names import CLIP


@rule("HVD575", "deepspeed-clip", symbols=[CLIP])
def clip(site: Site, context: Context) -> Finding:
    assert site.statement is not None
    engine = next(plan.engine for plan in context.plan(Plan) if plan.engine is not None)
    norm = engine.clipping.text if engine.clipping is not None else "0.0"
    message = f'clip_grad_norm_ goes: the engine clips, by "gradient_clipping": {norm}'
    edits = [Remove(site.statement)]
    if engine.was_reduced:
        return site.found("exact", message, edits)
    message += "; it clips the mean over all ranks, Horovod clipped each rank's own while they were being reduced"
    return site.found("review", message, edits)
