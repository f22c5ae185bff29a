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
    Class,
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

from .adasum import raising
from .arguments import arguments_of
from .names import DDP, PARTIAL, TORCH, WRAPPER
from .options import NO_ADASUM, PARAMETERS
from .plan import Plan, Refused

FP16_HOOK = Import("torch.distributed.algorithms.ddp_comm_hooks.default_hooks", "fp16_compress_hook")


@rule("HVD201", "distributed-optimizer", symbols=[WRAPPER])
def distributed_optimizer(site: Site, context: Context) -> Finding | tuple[Finding, ...]:
    if site.is_annotation:
        return site.replace(expression("torch.optim.Optimizer"), imports=[TORCH])
    plan = next((plan for plan in context.plan(Plan) if plan.site is site), None)
    if plan is None:
        reason = _refused(site, context)
        error = raising(site, arguments_of(site, PARAMETERS).get("op")) if reason == NO_ADASUM else None
        if error is None:
            raise RefusalError(reason)
        return error
    if plan.strategy == "deepspeed":
        return _by_engine(plan)
    found = _by_ddp(plan) if plan.strategy == "ddp" else _at_optimizer(plan, context)
    if plan.has_ddp_branch is None:
        return found
    message = "the file already has a DDP branch: no second wrap is added, gradients are averaged at the optimizer here"
    return found, site.found("review", message, node=plan.has_ddp_branch)


def _refused(site: Site, context: Context) -> str:
    """Why there is no plan for ``site``."""
    return next(refused.reason for refused in context.plan(Refused) if refused.site is site)


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
    asked = plan.reason != "nothing in the code speaks against it"
    why = f"as asked, though {plan.reason}" if asked else plan.reason
    notes = [
        f'DistributedOptimizer → DDP around "{dotted_name(plan.model)}" ({why}). Assumes every parameter of the model '
        "takes part in each backward; if some do not, choose --gradients optimizer. DDP keeps rank 0's buffers on all "
        "ranks, Horovod kept each rank's own"
    ]
    if asked:
        notes.append("where the model is used out of sight, keys of its state_dict begin with 'module.' from now on")
    if not plan.is_broadcast:
        notes.append("Horovod left each rank its own first weights here, DDP gives all rank 0's")
    return "; ".join([*notes, *_option_notes(plan)])


def _by_engine(plan: Plan) -> Finding:
    """The optimizer itself, or nothing where the engine is made in the place of the wrapping, which is its rule's."""
    edits = _adasum_guard(plan)
    edits += [Remove(_statement(plan.site))] if plan.wrap is plan.site else _plain(plan)
    notes = _option_notes(plan)
    class_: Class = "review" if notes else "exact"
    return plan.site.found(class_, "; ".join(["DistributedOptimizer goes: the engine averages", *notes]), edits)


def _option_notes(plan: Plan) -> list[str]:
    """What a reviewer must know of the options, whichever strategy was taken."""
    notes = []
    if plan.options.predivides:
        notes.append("gradient_predivide_factor goes: the last digit may differ unless it is a power of two")
    if plan.options.adasum:
        notes.append("Adasum has no counterpart: the program says so when the flag asks for it")
    if plan.freezes:
        notes.append("Horovod kept to parameters that needed a gradient when it wrapped: look at those unfrozen later")
    if plan.loses_state:
        notes.append(f"{plan.loses_state} is kept: Horovod's wrapper dropped it, so that the state began with zeros")
    if plan.scales_early and plan.strategy == "ddp":
        notes.append("Horovod reduced them after the scaler had looked at each rank's own, so its numbers differ")
    if plan.grows and plan.strategy == "optimizer":
        notes.append("parameters that are added later are reduced too: Horovod kept to those that it had wrapped")
    if plan.clips_early:
        notes.append("gradients are clipped without synchronize(): Horovod clipped them while they were being averaged")
    if plan.trusts_others:
        notes.append("no hook can tell the steps that skip_synchronize covered: code out of sight must not step it")
    if plan.of_model:
        notes.append("the gradients of the model's parameters, of which apex may have given the optimizer copies")
    if plan.may_copy:
        notes.append("assumes that apex does not run at O2, where it gives the optimizer copies of the parameters")
    if plan.reduces_twice:
        notes.append("Horovod summed twice where a step follows synchronize() without skip_synchronize(): once here")
    return notes


def _compressed(plan: Plan) -> list[Edit]:
    assert plan.model is not None
    assert plan.wrap is not None
    hook = "{model}.register_comm_hook(None, fp16_compress_hook)"
    if not plan.options.always_compresses and plan.options.compression is not None:
        text = "if {compression} is not None:\n    " + hook
        template = expression(text, model=plan.model, compression=plan.options.compression)
    else:
        template = expression(hook, model=plan.model)
    index = plan.site.module.index
    if plan.wrap is not plan.site and index.before(plan.wrap.target, plan.site.target):
        return [Insert(_statement(plan.site), "before", template)]
    return [Insert(_statement(plan.wrap), "after", template)]


def _at_optimizer(plan: Plan, context: Context) -> Finding:
    site, options = plan.site, plan.options
    helper = options.helper(plan.sparse)
    if plan.options.sums and plan.by_name and plan.hook:
        raise RefusalError(
            "gradients are summed, and not all steps are in sight: a second reduction would sum them twice"
        )
    if options.group is not None and plan.sparse and not options.dense:
        raise RefusalError("sparse gradients are gathered within a process set: make them dense first")
    edits = _adasum_guard(plan)
    optimizer = site.assigned_to or options.optimizer
    if site.assigned_to is None and not (_is_returned(site) and dotted_name(options.optimizer)):
        return _as_value(plan, edits)
    new = [_hook(plan, optimizer)] if plan.hook else []
    new += [_bound(plan, optimizer)] if plan.bound else []
    imports = [PARTIAL] if any("partial(" in template.text for template in new) else []
    if not new:
        edits += _plain(plan)
    elif site.assigned_to is None:
        edits += [*(Insert(_statement(site), "before", template) for template in new), *_plain(plan)]
    elif _keeps_name(plan):
        edits.append(Replace(_statement(site), new[0]))
        edits += [Insert(_statement(site), "after", template) for template in new[1:]]
    else:
        edits += [*_plain(plan), *(Insert(_statement(site), "after", template) for template in new)]
    helpers = [helper] if new else []
    return site.found("review", _message(plan), edits, helpers=helpers, imports=imports)


def _bound(plan: Plan, optimizer: cst.BaseExpression) -> Template:
    """The reduction as a method of the optimizer, for calls that do not see what it is compressed to."""
    options = plan.options
    text = f"{{optimizer}}.reduce_gradients = partial({options.function}, {{optimizer}}{options.keyword_text})"
    return expression(text, optimizer=optimizer, **options.keywords)


def _as_value(plan: Plan, edits: list[Edit]) -> Finding:
    """Where the optimizer is neither assigned nor returned by name: a function sets the hook and hands it on."""
    site, options = plan.site, plan.options
    if plan.bound:
        raise RefusalError("the wrapped optimizer is used as a value, and reduced by name: assign it to a name first")
    helper = Helper("averaging", options.helper(plan.sparse).features)
    new = expression("averaging({optimizer})", optimizer=options.optimizer)
    if options.group is not None:
        raise RefusalError("the optimizer is wrapped as a value, for a process set: assign it to a name first")
    if options.compression is not None:
        parts = {"optimizer": options.optimizer, "compression": options.compression}
        new = expression("averaging({optimizer}, {compression})", **parts)
    return site.found("review", _message(plan), [*edits, Replace(site.target, new)], helpers=[helper])


def _hook(plan: Plan, optimizer: cst.BaseExpression) -> Template:
    options = plan.options
    if not options.keywords:
        return expression(f"{{optimizer}}.register_step_pre_hook({options.function})", optimizer=optimizer)
    text = f"{{optimizer}}.register_step_pre_hook(partial({options.function}{options.keyword_text}))"
    return expression(text, optimizer=optimizer, **options.keywords)


def _message(plan: Plan) -> str:
    how = "summed" if plan.options.sums else "averaged"
    ways = ["a hook before each step"] if plan.hook else []
    ways += [f"{plan.function}()"] if plan.by_name else []
    means = " and ".join(ways)
    notes = [f"DistributedOptimizer → gradients {how} at the optimizer, by {means}: not DDP, because {plan.reason}"]
    if plan.options.compression is not None:
        notes.append("fp16 compression rounds as Horovod's did")
    if plan.options.group is not None:
        notes.append("only within the process group; other ranks keep their own gradients, as under Horovod")
    return "; ".join([*notes, *_option_notes(plan)])


def _adasum_guard(plan: Plan) -> list[Edit]:
    if plan.options.adasum_test is None:
        return []
    text = f'{plan.options.adasum}\n    raise NotImplementedError("{NO_ADASUM}")'
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
