"""HVD573 deepspeed-step: the engine goes backward and steps.

``engine.backward(loss)`` averages the gradients over all ranks as soon as they are there, ``engine.step()`` clips them,
steps the optimizer and sets them to None.

Example:

```python
loss.backward()
optimizer.step()
```

Use instead:

```python
engine.backward(loss)
engine.step()
```
"""

from migrator.api import Context, Finding, Site, cst, expression, rule

from .names import BACKWARD, STEP
from .use import use_of


@rule("HVD573", "deepspeed-step", symbols=[BACKWARD])
def backward(site: Site, context: Context) -> Finding:
    use = use_of(site, context)
    assert isinstance(site.node, cst.Attribute)
    loss = site.node.value
    argument = "{loss}" if loss.lpar else "({loss})"
    return site.replace(expression(f"{use.text}.backward{argument}", loss=loss))


@rule("HVD573", "deepspeed-step", symbols=[STEP])
def step(site: Site, context: Context) -> Finding:
    use = use_of(site, context)
    return site.replace(expression(f"{use.text}.step()"))
