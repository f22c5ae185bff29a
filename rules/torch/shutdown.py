"""HVD102 shutdown: ``hvd.shutdown`` becomes leaving the process group.

Horovod's may be called twice, or without ``init``; ``destroy_process_group`` may not, so a small function asks first.
The same function runs at exit where the program joins the process group: threads of Gloo that outlive it can bring the
interpreter down.

Example:

```python
hvd.shutdown()
```

Use instead:

```python
destroy_process_group()
```
"""

from migrator.api import Context, Finding, Remove, Site, expression, rule

from ..ray.joined import is_joined


@rule("HVD102", "shutdown", symbols=["horovod.torch.shutdown"])
def shutdown(site: Site, context: Context) -> Finding:
    if is_joined(site, context) and site.statement is not None:
        message = "shutdown goes: Ray Train leaves the process group, and fails where the function has left it already"
        asks = context.uses("horovod.torch.is_initialized")
        return site.found("review" if asks else "exact", message, [Remove(site.statement)])
    call = "" if site.call is None else "()"
    return site.replace(expression(f"destroy_process_group{call}"), helpers=["destroy_process_group"])
