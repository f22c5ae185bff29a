"""HVD210 backward-passes: gradients are reduced when the optimizer steps, however many backwards came before.

Horovod counts the backward passes in order to start reducing after the last one; it does not divide by their number.
The migrated program reduces right before the step, so that there is nothing to count.

Example:

```python
optimizer.set_backward_passes_per_step(4)
```

Use instead: nothing.
"""

from migrator.api import Context, Finding, RefusalError, Remove, Site, rule

from .optimizer_uses import PASSES


@rule("HVD210", "backward-passes", symbols=[PASSES])
def backward_passes(site: Site, context: Context) -> Finding:
    if site.call is None:
        raise RefusalError("set_backward_passes_per_step is passed on as a value: there is nothing to set any more")
    if not site.is_discarded or site.statement is None:
        raise RefusalError("set_backward_passes_per_step returns nothing, and its value is used")
    message = "set_backward_passes_per_step goes: gradients are reduced at the step, however many backwards there were"
    return site.found("exact", message, [Remove(site.statement)])
