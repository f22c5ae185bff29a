"""HVD574 deepspeed-zero-grad: the engine's step sets gradients to None, so that ``zero_grad`` goes.

It goes where it clears nothing but what a step has used. Where something may leave the loop between a backward and its
step, and at any other place, it stays: the optimizer is still PyTorch's.

Example:

```python
optimizer.zero_grad()
```

Use instead: nothing.
"""

from migrator.api import Context, Finding, Remove, Site, rule

from .names import ZERO_GRAD


@rule("HVD574", "deepspeed-zero-grad", symbols=[ZERO_GRAD])
def zero_grad(site: Site, context: Context) -> Finding:
    assert site.statement is not None
    return site.found("exact", "zero_grad goes: the engine's step does it", [Remove(site.statement)])
