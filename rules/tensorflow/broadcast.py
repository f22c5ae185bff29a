"""HVD823 tensorflow-broadcast: one worker's tensor, variables or object on all workers.

tf.distribute has no broadcast: small functions add up the value of one worker and zeros of the others, which is exact.
Of variables all workers get the values in place, as from ``hvd.broadcast_variables``. In Keras 3 an optimizer's
``variables`` are a list, in Keras 2 its newer ones can be called as well, its older ones must be.

Example:

```python
hvd.broadcast_variables(model.variables, root_rank=0)
```

Use instead:

```python
broadcast_variables(model.variables, 0)
```
"""

from collections.abc import Mapping

from migrator.api import Context, Finding, Helper, RefusalError, Site, cst, expression, rule

from .names import NO_PROCESS_SETS, NO_SESSIONS, keras_features

VARIABLES = {
    "horovod.tensorflow.broadcast_variables": ("variables", "root_rank", "process_set", "inplace"),
    "horovod.tensorflow.broadcast_": ("variables", "root_rank", "name", "process_set"),
}
TENSORS = {
    "horovod.tensorflow.broadcast": ("tensor", "root_rank", "name", "ignore_name_scope", "process_set"),
    "horovod.keras.broadcast": ("value", "root_rank", "name"),
}
OBJECT = "horovod.tensorflow.broadcast_object"


@rule("HVD823", "tensorflow-broadcast", symbols=list(VARIABLES))
def broadcast_variables(site: Site, context: Context) -> Finding:
    if not site.is_discarded:
        raise RefusalError(f"what {site.short} returns is used")
    arguments = dict(_rooted(site, VARIABLES[site.symbol]))
    attribute, features = _called_variables(arguments["variables"]), keras_features(context)
    if attribute is not None and context.settings.keras != "2":
        arguments["variables"] = attribute
        features |= {"callable"} if context.settings.keras == "auto" else set()
    new = expression("broadcast_variables({variables}, {root_rank})", **arguments)
    return site.replace(new, helpers=[Helper("tensorflow.broadcast_variables", features)])


def _called_variables(node: cst.BaseExpression) -> cst.Attribute | None:
    """The function of ``optimizer.variables()``, which Keras 3 does not call."""
    attribute = node.func if isinstance(node, cst.Call) and not node.args else None
    return attribute if isinstance(attribute, cst.Attribute) and attribute.attr.value == "variables" else None


@rule("HVD823", "tensorflow-broadcast", symbols=list(TENSORS))
def broadcast(site: Site, context: Context) -> Finding:
    parameters = TENSORS[site.symbol]
    arguments = _rooted(site, parameters)
    new = expression("broadcast({value}, {root})", value=arguments[parameters[0]], root=arguments["root_rank"])
    return site.replace(new, helpers=["tensorflow.broadcast"])


@rule("HVD823", "tensorflow-broadcast", symbols=[OBJECT])
def broadcast_object(site: Site, context: Context) -> Finding:
    arguments = site.arguments("obj", "root_rank", "session", "name", "process_set")
    _refuse(arguments)
    parts = {name: arguments[name] for name in ("obj", "root_rank") if name in arguments}
    given = ", ".join("{obj}" if name == "obj" else "root_rank={root_rank}" for name in parts)
    return site.replace(expression(f"broadcast_object({given})", **parts), helpers=["tensorflow.broadcast_object"])


@rule("HVD823", "tensorflow-broadcast", symbols=["horovod.tensorflow.broadcast_object_fn"])
def broadcast_object_fn(site: Site, context: Context) -> Finding:
    arguments = site.arguments("root_rank", "session", "name", "process_set")
    _refuse(arguments)
    root = arguments.get("root_rank")
    text = "lambda value: broadcast_object(value, {root})" if root is not None else "broadcast_object"
    new = expression(text, **({"root": root} if root is not None else {}))
    return site.replace(new, helpers=["tensorflow.broadcast_object"])


def _rooted(site: Site, parameters: tuple[str, ...]) -> Mapping[str, cst.BaseExpression]:
    arguments = site.arguments(*parameters)
    if not {parameters[0], "root_rank"} <= arguments.keys():
        raise RefusalError("the call does not say what it broadcasts, and from where")
    _refuse(arguments)
    return {name: arguments[name] for name in (parameters[0], "root_rank")}


def _refuse(arguments: Mapping[str, cst.BaseExpression]) -> None:
    if "process_set" in arguments:
        raise RefusalError(NO_PROCESS_SETS)
    if "session" in arguments:
        raise RefusalError(NO_SESSIONS)
