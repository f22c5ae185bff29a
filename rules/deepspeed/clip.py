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

from migrator.api import Context, Finding, Remove, Site, cst, rule

from .names import CLIP
from .use import engine_of


@rule("HVD575", "deepspeed-clip", symbols=[CLIP])
def clip(site: Site, context: Context) -> Finding:
    assert site.statement is not None
    engine, _ = engine_of(site, context)
    norm = engine.clipping.text if engine.clipping is not None else "0.0"
    message = f'clip_grad_norm_ goes: the engine clips, by "gradient_clipping": {norm}'
    edits = [Remove(_condition(site) or site.statement)]
    if engine.was_reduced:
        return site.found("exact", message, edits)
    message += "; it clips the mean over all ranks, Horovod clipped each rank's own while they were being reduced"
    return site.found("review", message, edits)


def _condition(site: Site) -> cst.If | None:
    """The ``if`` around the site, where it holds nothing but this and a synchronize() that goes too."""
    index = site.module.index
    body = index.parent(index.line(site.target))
    holder = body if isinstance(body, cst.If) else index.parent(body) if body is not None else None
    if not isinstance(holder, cst.If):
        return None
    lines = holder.body.body if isinstance(holder.body, cst.IndentedBlock) else (holder.body,)
    simple = (cst.SimpleStatementLine, cst.SimpleStatementSuite)
    parts = [part for line in lines for part in (line.body if isinstance(line, simple) else (line,))]
    return holder if all(part is site.statement or _synchronizes(part) for part in parts) else None


def _synchronizes(statement: cst.CSTNode) -> bool:
    call = statement.value if isinstance(statement, cst.Expr) else None
    return isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "synchronize"
