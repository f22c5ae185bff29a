"""HVD109 exceptions: errors of Horovod's collectives become those of PyTorch's.

``HorovodInternalError`` is a ``RuntimeError``; a process group raises a plain ``RuntimeError``, or a class derived from
it. The handler then catches every other ``RuntimeError`` too. Where the same ``try`` handles ``RuntimeError`` as well,
the two can no longer be told apart: that is blocked. ``HostsUpdatedInterrupt`` and the errors of a wrong installation
are raised by Horovod alone.

Example:

```python
except hvd.HorovodInternalError:
```

Use instead:

```python
except RuntimeError:
```
"""

from __future__ import annotations

from migrator.api import Context, Finding, RefusalError, Replace, Site, cst, dotted_name, expression, rule

NEVER_RAISED = {
    "horovod.torch.HostsUpdatedInterrupt": (
        "HostsUpdatedInterrupt tells an elastic job that hosts came or went; torchrun restarts the script instead: "
        "take the handler out and load the latest checkpoint at the start"
    ),
    "horovod.torch.HorovodVersionMismatchError": (
        "HorovodVersionMismatchError is raised where Horovod was built for another version of PyTorch, which cannot "
        "happen without Horovod: take it out"
    ),
    "horovod.torch.get_version_mismatch_message": (
        "get_version_mismatch_message makes the text of an error about Horovod's own installation: take it out"
    ),
}


@rule("HVD109", "exceptions", symbols=["horovod.torch.HorovodInternalError"])
def internal_error(site: Site, context: Context) -> Finding:
    handler = next((h for h in site.module.index.ancestors(site.node) if isinstance(h, cst.ExceptHandler)), None)
    if handler is not None and _is_in(site.node, handler.type, site) and _others_handle_runtime_error(handler, site):
        raise RefusalError(
            "HorovodInternalError becomes RuntimeError, which this try statement handles differently: join the handlers"
        )
    message = "HorovodInternalError → RuntimeError, which is what a process group raises; other errors are one too"
    if site.call is None:
        return site.replace(expression("RuntimeError"), class_="review", message=message)
    return site.found("review", message, [Replace(site.node, expression("RuntimeError"))])


def _is_in(node: cst.CSTNode, part: cst.CSTNode | None, site: Site) -> bool:
    return part is node or any(holder is part for holder in site.module.index.ancestors(node))


def _others_handle_runtime_error(handler: cst.ExceptHandler, site: Site) -> bool:
    holder = site.module.index.parent(handler)
    if not isinstance(holder, cst.Try):
        return False
    types = [other.type for other in holder.handlers if other is not handler and other.type is not None]
    names = [element.value for t in types if isinstance(t, cst.Tuple) for element in t.elements]
    return any(dotted_name(t) == "RuntimeError" for t in (*types, *names))


@rule("HVD109", "exceptions", symbols=list(NEVER_RAISED))
def never_raised(site: Site, context: Context) -> Finding:
    raise RefusalError(NEVER_RAISED[site.symbol])
