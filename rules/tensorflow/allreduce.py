"""HVD821 tensorflow-allreduce: tensors are reduced over all workers by small functions.

``hvd.allreduce`` averages by default; integers are averaged with truncation toward zero. tf.distribute knows the mean
and the sum; the smallest, the largest and the product are computed from the tensors of all workers. Gradients through
them are reduced the same way, as under Horovod. Of embeddings (``tf.IndexedSlices``) the rows of all workers follow one
another.

Example:

```python
loss = hvd.allreduce(loss)
total = hvd.allreduce(count, op=hvd.Sum)
```

Use instead:

```python
loss = all_reduce_mean(loss)
total = all_reduce_sum(count)
```
"""

from __future__ import annotations

from migrator.api import Context, Finding, Helper, RefusalError, Site, Template, cst, expression, rule

from .names import TF
from .options import Options, is_one, options_of

GROUPED = "horovod.tensorflow.grouped_allreduce"
PARAMETERS = {
    "horovod.tensorflow.allreduce": (
        "tensor", "average", "device_dense", "device_sparse", "compression", "op", "prescale_factor",
        "postscale_factor", "name", "process_set", "ignore_name_scope",
    ),
    "horovod.keras.allreduce": ("value", "name", "average", "prescale_factor", "postscale_factor", "op", "compression"),
    GROUPED: (
        "tensors", "average", "device_dense", "device_sparse", "compression", "op", "prescale_factor",
        "postscale_factor", "process_set", "ignore_name_scope",
    ),
}  # fmt: skip
FUNCTIONS = {"Average": "all_reduce_mean", "Sum": "all_reduce_sum"}
REDUCTIONS = {"Min": "tf.reduce_min", "Max": "tf.reduce_max", "Product": "tf.reduce_prod"}
SIMPLE = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float)


@rule("HVD821", "tensorflow-allreduce", symbols=list(PARAMETERS))
def allreduce(site: Site, context: Context) -> Finding:
    parameters = PARAMETERS[site.symbol]
    arguments = site.arguments(*parameters)
    given = arguments.get(parameters[0])
    if given is None:
        raise RefusalError("the call does not say what it reduces")
    value = expression("tensor") if site.symbol == GROUPED else expression("{value}", value=given)
    before, after = (arguments.get(name) for name in ("prescale_factor", "postscale_factor"))
    options = options_of(arguments, site)
    new = _reduced(options, _scaled(value, before, given))
    if not is_one(after):
        assert after is not None
        new = Template(f"{new.text} * {_operand('after', after)}", {**new.parts, "after": after})
    if site.symbol == GROUPED:
        new = Template(f"[{new.text} for tensor in {{given}}]", {**new.parts, "given": given})
    return site.replace(new, imports=[TF] if "tf." in new.text else [], helpers=[_helper(options, context)])


def _reduced(options: Options, value: Template) -> Template:
    if options.operation in REDUCTIONS:
        return Template(f"all_reduce({value.text}, {REDUCTIONS[options.operation]})", value.parts)
    keywords = "".join(f", {name}={{{name}}}" for name in options.told)
    return Template(f"{FUNCTIONS[options.operation]}({value.text}{keywords})", {**value.parts, **options.told})


def _helper(options: Options, context: Context) -> Helper:
    slices = frozenset({"slices"} if any("IndexedSlices" in module.text for module in context.modules) else ())
    return options.helper(FUNCTIONS.get(options.operation, "all_reduce"), slices)


def _scaled(value: Template, factor: cst.BaseExpression | None, given: cst.BaseExpression) -> Template:
    if is_one(factor):
        return value
    assert factor is not None
    text = value.text if value.text != "{value}" or isinstance(given, SIMPLE) else "({value})"
    return Template(f"{text} * {_operand('before', factor)}", {**value.parts, "before": factor})


def _operand(name: str, node: cst.BaseExpression) -> str:
    return f"{{{name}}}" if isinstance(node, SIMPLE) else f"({{{name}}})"
