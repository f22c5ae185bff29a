"""HVD202 synchronize: gradients are reduced where the code says, not by the step.

``optimizer.synchronize()`` waits until the gradients are averaged, so that they can be clipped or unscaled, and
``skip_synchronize`` keeps the step from doing it again. DDP has averaged by the end of ``backward()``: both go.
Where gradients are averaged at the optimizer, the function that does it is called in the place of ``synchronize``,
and before every other step of that optimizer; with a gradient scaler, before ``unscale_``, so that all ranks see the
same infinities.

Example:

```python
optimizer.synchronize()
clip_grad_norm_(model.parameters(), 1.0)
with optimizer.skip_synchronize():
    optimizer.step()
```

Use instead:

```python
average_gradients(optimizer)
clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
```
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TypeVar

from migrator.api import (
    Context,
    Edit,
    Finding,
    Helper,
    Import,
    Insert,
    RefusalError,
    Remove,
    Replace,
    Site,
    Template,
    Unwrap,
    children_of,
    cst,
    definition_of,
    dotted_name,
    expression,
    rule,
)

from .names import DIST, TORCH
from .optimizer_uses import CLOSURE, DUPLICATES, REDUCE, SKIP, SYNCHRONIZE, UNKNOWN
from .plan import Gradients, Plan

Kind = TypeVar("Kind", bound=cst.CSTNode)


@rule("HVD202", "synchronize", symbols=[SYNCHRONIZE, SKIP, REDUCE, CLOSURE, UNKNOWN])
def synchronize(site: Site, context: Context) -> Finding:
    gradients = next(context.plan(Gradients))
    if site.call is None:
        raise RefusalError(f"{site.short} is passed on as a value: call it where gradients are to be reduced")
    optimizer = gradients.uses.optimizer(site.module, site.call)
    plan = gradients.of(optimizer, site.module)
    if site.symbol == UNKNOWN:
        raise RefusalError("what is synchronized here cannot be told: a Horovod optimizer, or an event of CUDA")
    if plan is None and gradients.plans:
        raise RefusalError("which of several optimizers this is cannot be told, and they are reduced differently")
    if site.symbol == SKIP:
        return _skip(site, plan, gradients)
    if plan is not None and plan.strategy in ("ddp", "deepspeed"):
        ddp = "DDP has averaged by the end of backward()"
        return _gone(site, ddp if plan.strategy == "ddp" else "the engine averages before it clips and steps")
    template, helpers, imports = _reduction(optimizer, plan)
    if plan is not None and site.symbol == REDUCE and (plan.is_conditional or _is_wrapped_on_condition(plan, site)):
        test = _test_at(site, plan)
        template, imports = _guarded(template, test), [*imports, *([] if test is not None else [DIST])]
    edits: list[Edit] = [_placed(site, template)]
    if plan is None:
        taken = "taken for a Horovod optimizer that averages, whose wrapping is not in sight"
        message = f"synchronize → average_gradients(): {taken}"
        return site.found("review", message, edits, helpers=helpers)
    function = plan.function
    if site.symbol == CLOSURE:
        return _in_closure(site, function, edits, helpers, imports)
    message = f"{site.short} → {function}() where the gradients must be reduced"
    if site.symbol == REDUCE and (site.call.args or gradients.uses.is_scaled(site.call)):
        message += ": Horovod reduced them after the scaler had looked at each rank's own, so its numbers differ"
    return site.found(
        "exact" if site.symbol == SYNCHRONIZE else "review", message, edits, helpers=helpers, imports=imports
    )


def _in_closure(site: Site, function: str, edits: list[Edit], helpers: list[Helper], imports: list[Import]) -> Finding:
    """After the backward of a closure; a line search must look at the same loss on all ranks."""
    message = f"step(closure) → {function}() inside the closure: Horovod reduced before it ran, so its ranks diverged"
    if any("strong_wolfe" in string.value for string in site.module.index.strings):
        holders = site.module.index.ancestors(site.target)
        function_ = next(holder for holder in holders if isinstance(holder, cst.FunctionDef))
        returned = [r.value for r in _within(function_, cst.Return) if r.value is not None]
        edits += [Replace(value, expression("all_reduce_mean({loss})", loss=value)) for value in returned]
        helpers = [*helpers, Helper("all_reduce_mean")]
        message += "; the line search looks at the mean of the losses"
    return site.found("review", message, edits, helpers=helpers, imports=imports)


def _within(function: cst.CSTNode, kind: type[Kind]) -> Iterator[Kind]:
    """The nodes of that kind in ``function``."""
    if isinstance(function, kind):
        yield function
    for child in children_of(function):
        yield from _within(child, kind)


@rule("HVD202", "synchronize", symbols=[DUPLICATES])
def find_duplicates(site: Site, context: Context) -> Finding:
    raise RefusalError("find_duplicates checks the names by which Horovod matches gradients; names do not matter now")


def _placed(site: Site, template: Template) -> Edit:
    if site.symbol == SYNCHRONIZE:
        return Replace(site.target, template)
    if site.symbol == CLOSURE and site.statement is not None:
        return Insert(site.statement, "after", template)
    statement = site.statement
    if statement is None or any(isinstance(h, _PARTIAL) for h in _up_to(statement, site)):
        raise RefusalError("the optimizer steps under a condition within an expression, or in the head of a statement")
    return Insert(statement, "before", template)


def _guarded(template: Template, test: cst.BaseExpression | None) -> Template:
    """The reduction under the condition under which the optimizer is wrapped."""
    if test is None:
        return expression(f"if dist.is_initialized():\n    {template.text}", **template.parts)
    return expression(f"if {{test}}:\n    {template.text}", test=test, **template.parts)


def _is_wrapped_on_condition(plan: Plan, site: Site) -> bool:
    """Whether the function that wraps the optimizer, which is another than that of ``site``, is called under an if."""
    module = plan.site.module
    holders = module.index.ancestors(plan.site.target)
    function = next((holder for holder in holders if isinstance(holder, cst.FunctionDef)), None)
    if function is None or any(holder is function for holder in site.module.index.ancestors(site.target)):
        return False
    calls = module.functions.calls(definition_of(function, module))
    tests = ((m, h.test) for m, call in calls for h in m.index.ancestors(call) if isinstance(h, cst.If))
    return any("__name__" not in m.source(test) for m, test in tests)


def _test_at(site: Site, plan: Plan) -> cst.BaseExpression | None:
    """That condition as ``site`` can ask for it; None where its names may mean something else there."""
    root = dotted_name(plan.test).partition(".")[0]
    if plan.test is None or not root:
        return None
    if asked := _asked_around(site, plan.site.module.source(plan.test).strip()):
        return asked
    if site.module is not plan.site.module:
        return None
    if root == "self":
        return plan.test if _class_around(site) is _class_around(plan.site) else None
    return plan.test if site.scope.home(root) is plan.site.scope.home(root) else None


def _asked_around(site: Site, text: str) -> cst.BaseExpression | None:
    """The test of an ``if`` in the function around ``site`` that reads ``text``."""
    function = next((h for h in site.module.index.ancestors(site.target) if isinstance(h, cst.FunctionDef)), None)
    tests = [node.test for node in _within(function, cst.If)] if function is not None else []
    return next((test for test in tests if site.module.source(test).strip() == text), None)


def _class_around(site: Site) -> cst.CSTNode | None:
    holders = site.module.index.ancestors(site.target)
    return next((holder for holder in holders if isinstance(holder, cst.ClassDef)), None)


_PARTIAL = (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.BaseComp)


def _up_to(statement: cst.CSTNode, site: Site) -> Iterator[cst.CSTNode]:
    """What is between the site and its statement."""
    return takewhile(lambda holder: holder is not statement, site.module.index.ancestors(site.target))


def _gone(site: Site, why: str) -> Finding:
    if not site.is_discarded or site.statement is None:
        raise RefusalError("the value of synchronize() is used")
    return site.found("exact", f"synchronize goes: {why}", [Remove(site.statement)])


def _skip(site: Site, plan: Plan | None, gradients: Gradients) -> Finding:
    item = site.module.index.parent(site.target)
    if not isinstance(item, cst.WithItem):
        raise RefusalError("skip_synchronize is not used as the context of a with statement")
    message = "skip_synchronize goes: the step does not reduce by itself"
    if not gradients.uses.synchronized:
        message += "; with no synchronize() in sight, Horovod's took each rank's own gradients"
        return site.found("review", message, [Unwrap(item)])
    if plan is not None and plan.strategy == "optimizer" and plan.hook:
        message = "skip_synchronize goes: the hook averages once more what is equal on all ranks, up to rounding"
    is_exact = plan is not None and not plan.hook
    return site.found("exact" if is_exact else "review", message, [Unwrap(item)])


def _reduction(optimizer: cst.BaseExpression, plan: Plan | None) -> tuple[Template, list[Helper], list[Import]]:
    if plan is None:
        return expression("average_gradients({optimizer})", optimizer=optimizer), [Helper("reduce_gradients")], []
    if plan.bound:
        return expression("{optimizer}.reduce_gradients()", optimizer=optimizer), [], []
    if plan.of_model and plan.model is not None:
        new = expression("average_gradients_of({model}.parameters())", model=plan.model)
        return new, [Helper("average_gradients_of")], []
    options, helper = plan.options, plan.options.helper(plan.sparse)
    if options.always_compresses and options.group is None:
        call = f"{options.function}({{optimizer}}, compression=torch.float16)"
        return expression(call, optimizer=optimizer), [helper], [TORCH]
    call = f"{options.function}({{optimizer}}{options.keyword_text})"
    return expression(call, optimizer=optimizer, **options.keywords), [helper], []
