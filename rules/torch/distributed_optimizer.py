"""HVD201 distributed-optimizer: gradients are averaged by DDP, or at the optimizer before it steps.

Horovod's wrapper averages every gradient over all ranks before the step. Two things do the same: ``DDP`` around the
model, taken where the code shows that it is right (every training forward is a call of the wrapped name, one
backward and one step to each, mean, dense, no fp16), and a function that averages the gradients of the optimizer's
parameters, which is right everywhere else. The finding says which was taken, and why. ``--gradients ddp`` or
``--gradients optimizer`` decides for you.

DDP assumes that every parameter of the model takes part in each backward. Where that is not so, Horovod counts a
missing gradient as zero, so that weight decay and momentum still act; averaging at the optimizer does too, DDP with
``find_unused_parameters`` does not.

What goes: ``named_parameters``, ``groups`` and ``num_groups`` (the same numbers without them),
``backward_passes_per_step`` (Horovod does not divide by it either), ``gradient_predivide_factor`` (a power of two
changes nothing, others the last digit).

Example:

```python
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
```

Use instead:

```python
model = DDP(model)
```
"""

from __future__ import annotations

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
    cst,
    dotted_name,
    expression,
    rule,
)

from .names import DDP, PARTIAL
from .options import options_of
from .plan import WRAPPER, Plan

FP16_HOOK = Import("torch.distributed.algorithms.ddp_comm_hooks.default_hooks", "fp16_compress_hook")


@rule("HVD201", "distributed-optimizer", symbols=[WRAPPER])
def distributed_optimizer(site: Site, context: Context) -> Finding | tuple[Finding, ...]:
    plan = next((plan for plan in context.plan(Plan) if plan.site is site), None)
    if plan is None:
        options_of(site)
        raise RefusalError("--gradients ddp cannot be had here: there is no place to wrap the model")
    found = _by_ddp(plan) if plan.strategy == "ddp" else _at_optimizer(plan, context)
    if plan.has_ddp_branch is None:
        return found
    message = "the file already has a DDP branch: no second wrap is added, gradients are averaged at the optimizer here"
    return found, site.found("review", message, node=plan.has_ddp_branch)


def _by_ddp(plan: Plan) -> Finding:
    site, model = plan.site, plan.model
    assert model is not None
    edits = _adasum_guard(plan)
    imports: list[Import] = []
    if plan.wrap is site:
        edits.append(Insert(_statement(site), "after", expression("{model} = DDP({model})", model=model)))
        imports.append(DDP)
    if plan.options.compression is not None:
        edits += _compressed(plan)
        imports.append(FP16_HOOK)
    return site.found("review", _ddp_message(plan), [*edits, *_plain(plan)], imports=imports)


def _ddp_message(plan: Plan) -> str:
    name = dotted_name(plan.model)
    why = "shown from the code" if plan.reason == "shown from the code" else f"as asked, though {plan.reason}"
    return (
        f'DistributedOptimizer → DDP around "{name}" ({why}). Assumes every parameter of the model takes part in each '
        "backward; if some do not, choose --gradients optimizer. DDP keeps rank 0's buffers on all ranks, Horovod kept "
        "each rank's own"
    )


def _compressed(plan: Plan) -> list[Edit]:
    assert plan.model is not None
    assert plan.wrap is not None
    hook = "{model}.register_comm_hook(None, fp16_compress_hook)"
    if not plan.options.always_compresses and plan.options.compression is not None:
        text = "if {compression} is not None:\n    " + hook
        template = expression(text, model=plan.model, compression=plan.options.compression)
    else:
        template = expression(hook, model=plan.model)
    place = plan.wrap if plan.wrap is not plan.site else plan.site
    return [Insert(_statement(place), "after", template)]


def _at_optimizer(plan: Plan, context: Context) -> Finding:
    site, options = plan.site, plan.options
    helper = options.helper(plan.sparse)
    if plan.options.sums and plan.by_name and plan.hook:
        raise RefusalError(
            "gradients are summed, and not all steps are in sight: a second reduction would sum them twice"
        )
    edits = _adasum_guard(plan)
    imports = [PARTIAL] if plan.hook and options.compression is not None else []
    if not plan.hook:
        return site.found("review", _message(plan), [*edits, *_plain(plan)], helpers=[helper])
    if site.assigned_to is None and _is_returned(site):
        edits += [Insert(_statement(site), "before", _hook(plan, options.optimizer)), *_plain(plan)]
    elif site.assigned_to is None:
        return _as_value(plan, edits)
    elif _keeps_name(plan):
        edits.append(Replace(_statement(site), _hook(plan, site.assigned_to)))
    else:
        edits += [*_plain(plan), Insert(_statement(site), "after", _hook(plan, site.assigned_to))]
    return site.found("review", _message(plan), edits, helpers=[helper], imports=imports)


def _as_value(plan: Plan, edits: list[Edit]) -> Finding:
    """Where the optimizer is neither assigned nor returned by name: a function sets the hook and hands it on."""
    site, options = plan.site, plan.options
    if options.compression is not None:
        raise RefusalError("the wrapped optimizer is used as a value, with compression: assign it to a name first")
    helper = Helper("averaging", options.helper(plan.sparse).features)
    new = expression("averaging({optimizer})", optimizer=options.optimizer)
    return site.found("review", _message(plan), [*edits, Replace(site.target, new)], helpers=[helper])


def _hook(plan: Plan, optimizer: cst.BaseExpression) -> Template:
    function, options = plan.options.function, plan.options
    if options.compression is None:
        return expression(f"{{optimizer}}.register_step_pre_hook({function})", optimizer=optimizer)
    text = f"{{optimizer}}.register_step_pre_hook(partial({function}, compression={{compression}}))"
    return expression(text, optimizer=optimizer, compression=options.compression)


def _message(plan: Plan) -> str:
    how = "summed" if plan.options.sums else "averaged"
    call = f"{plan.options.function}() by name" if plan.by_name else "a hook before each step"
    notes = [f"DistributedOptimizer → gradients {how} at the optimizer, by {call}: not DDP, because {plan.reason}"]
    if plan.options.compression is not None:
        notes.append("fp16 compression rounds as Horovod's did")
    if plan.options.predivides:
        notes.append("gradient_predivide_factor goes: the last digit may differ unless it is a power of two")
    if plan.options.adasum:
        notes.append("Adasum has no counterpart: the program says so when the flag asks for it")
    return "; ".join(notes)


def _adasum_guard(plan: Plan) -> list[Edit]:
    if plan.options.adasum_test is None:
        return []
    text = plan.options.adasum + '\n    raise NotImplementedError("Adasum has no counterpart in torch.distributed")'
    return [Insert(_statement(plan.site), "before", expression(text, test=plan.options.adasum_test))]


def _plain(plan: Plan) -> list[Edit]:
    """The wrapped optimizer gives way to the optimizer; an assignment to the same name goes."""
    if _keeps_name(plan):
        return [Remove(_statement(plan.site))]
    return [Replace(plan.site.target, expression("{optimizer}", optimizer=plan.options.optimizer))]


def _keeps_name(plan: Plan) -> bool:
    target = plan.site.assigned_to
    name = dotted_name(target) if target is not None else ""
    return bool(name) and name == dotted_name(plan.options.optimizer)


def _is_returned(site: Site) -> bool:
    return isinstance(site.module.index.parent(site.target), cst.Return)


def _statement(site: Site) -> cst.BaseSmallStatement:
    statement = site.statement
    if statement is None:
        raise RefusalError("the optimizer is wrapped in the head of a compound statement")
    return statement
