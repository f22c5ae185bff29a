"""HVD102 shutdown: ``hvd.shutdown`` becomes leaving the process group.

Horovod's may be called twice, or without ``init``; ``destroy_process_group`` may not, so a small function asks first.
The same function runs at exit where the program joins the process group: threads of Gloo that outlive it can bring the
interpreter down.

A program that joins again afterwards is named: torchrun's store keeps the addresses of the group that was left, and
ranks that find those before the new ones fail to connect (seen in half of the runs of PyTorch 2.13 with two Gloo
ranks).

Example:

```python
hvd.shutdown()
```

Use instead:

```python
destroy_process_group()
```
"""

from __future__ import annotations

from dataclasses import replace

from migrator.api import Context, Finding, Remove, Site, cst, expression, rule

from ..ray.joined import is_joined

AGAIN = (
    "the program joins again: torchrun's store keeps the addresses of the group that was left, and ranks that find "
    "those fail to connect. Join once, and leave at the end"
)


@rule("HVD102", "shutdown", symbols=["horovod.torch.shutdown"])
def shutdown(site: Site, context: Context) -> Finding:
    if is_joined(site, context) and site.statement is not None:
        message = "shutdown goes: Ray Train leaves the process group, and fails where the function has left it already"
        asks = context.uses("horovod.torch.is_initialized")
        return site.found("review" if asks else "exact", message, [Remove(site.statement)])
    call = "" if site.call is None else "()"
    found = site.replace(expression(f"destroy_process_group{call}"), helpers=["destroy_process_group"])
    return (
        replace(found, class_="review", message=f"{found.message}; {AGAIN}") if _joins_again(site, context) else found
    )


def _joins_again(site: Site, context: Context) -> bool:
    """Whether the code joins after it has left: further down in the same block, or in a loop around both."""
    index = site.module.index
    loops = [holder for holder in index.ancestors(site.node) if isinstance(holder, (cst.For, cst.While))]
    block = index.parent(index.line(site.target))
    for init in (init for init in context.uses("horovod.torch.init") if init.module is site.module):
        holders = list(index.ancestors(init.node))
        later = index.before(site.node, init.node) and any(holder is block for holder in holders)
        if later or any(holder is loop for holder in holders for loop in loops):
            return True
    return False
