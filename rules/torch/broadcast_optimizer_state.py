"""HVD205 broadcast-optimizer-state: a resumed optimizer's state goes to all ranks; a fresh one has none.

On a fresh optimizer Horovod's call takes a real step with zero gradients to create the state. Weight decay moves the
weights once in it, before training; after ``DistributedOptimizer`` the state stays, so that Adam starts at step 1;
before it the state is thrown away. That step is left out: it is an accident of the broadcast. Where the program may
load an optimizer's state, it is broadcast by a small function, which keeps moments that Horovod's wrapper would
drop.

Example:

```python
optimizer.load_state_dict(checkpoint["optimizer"])
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
```

Use instead:

```python
optimizer.load_state_dict(checkpoint["optimizer"])
broadcast_optimizer_state(optimizer)
```
"""

from __future__ import annotations

from migrator.api import Context, Finding, RefusalError, Remove, Site, cst, dotted_name, expression, rule

from ..guards import is_rank_guard
from ..values import is_constant, is_zero, symbol_of
from .names import BROADCAST_STATE, WRAPPER
from .plan import Plan


@rule("HVD205", "broadcast-optimizer-state", symbols=[BROADCAST_STATE])
def broadcast_optimizer_state(site: Site, context: Context) -> Finding:
    arguments = site.arguments("optimizer", "root_rank", "model")
    optimizer, root = arguments.get("optimizer"), arguments.get("root_rank")
    if optimizer is None:
        raise RefusalError("the call does not say which optimizer's state it broadcasts")
    built = _construction(optimizer, site)
    if (
        built is not None
        and not _may_change(optimizer, site, context)
        and not any(is_rank_guard(argument.value, site.module, site.scope) for argument in built.args)
        and site.is_discarded
        and site.statement is not None
    ):
        return _fresh(site, built, context)
    text = "broadcast_optimizer_state({optimizer})"
    if root is not None and not is_constant(root, "0"):
        text = "broadcast_optimizer_state({optimizer}, {root})"
    parts = {"optimizer": optimizer} | ({"root": root} if root is not None else {})
    message = (
        "broadcast_optimizer_state → a function that broadcasts the state as it is; on a fresh optimizer Horovod also "
        "took a step with zero gradients: weight decay then changed the weights, Adam's moments began at step 1"
    )
    if built is None or _is_without_state(built):
        message += "; of an optimizer without state (plain SGD) it did not broadcast the learning rate, this does"
    if _is_wrapped(site, context, before=False):
        message += "; the wrapper that follows then dropped the state, which is kept now"
    new = expression(text, **parts)
    return site.replace(new, class_="review", message=message, helpers=["broadcast_optimizer_state"])


def _fresh(site: Site, built: cst.Call, context: Context) -> Finding:
    assert site.statement is not None
    edits = [Remove(site.statement)]
    effect = _effect(site, built, context)
    if not effect:
        return site.found("exact", "broadcast_optimizer_state goes: the optimizer is new, it has no state", edits)
    message = (
        f"broadcast_optimizer_state goes: the optimizer is new. Horovod took a step with zero gradients here: {effect}"
    )
    return site.found("review", message, edits)


def _effect(site: Site, built: cst.Call, context: Context) -> str:
    """What Horovod's step with zero gradients left behind; empty where nothing."""
    name = dotted_name(built.func).rpartition(".")[2]
    found = _settings(built, name)
    effects = []
    if decays := _decays(built, name, found, site):
        effects.append(f"{decays} moved the weights once, before training")
    if _is_wrapped(site, context, before=True):
        if name not in ("SGD", "RMSprop", "Adagrad", "Rprop"):
            effects.append(
                "its moments then started at step 1, which changes the first updates (up to 6e-3 in ten steps)"
            )
        elif not is_zero(found.get("dampening")):
            effects.append("momentum began with zeros, so that dampening acts on the first gradient too")
    return "; ".join(effects)


def _is_without_state(built: cst.Call) -> bool:
    name = dotted_name(built.func).rpartition(".")[2]
    return name == "SGD" and is_zero(_settings(built, name).get("momentum"))


def _settings(built: cst.Call, name: str) -> dict[str, cst.BaseExpression]:
    """The constructor's arguments by name, as far as they are not starred."""
    plain = [argument for argument in built.args if not argument.star]
    names = ("params", "lr", *POSITIONAL.get(name, ()))
    placed = zip(names, (a.value for a in plain if a.keyword is None), strict=False)
    return {**dict(placed), **{a.keyword.value: a.value for a in plain if a.keyword is not None}}


POSITIONAL = {
    "SGD": ("momentum", "dampening", "weight_decay"),
    "Adam": ("betas", "eps", "weight_decay"),
    "AdamW": ("betas", "eps", "weight_decay"),
    "RMSprop": ("alpha", "eps", "weight_decay"),
    "Adagrad": ("lr_decay", "weight_decay"),
}


def _decays(built: cst.Call, name: str, found: dict[str, cst.BaseExpression], site: Site) -> str:
    """Weight decay, in the words that say how sure it is; empty where there is none."""
    if name == "Adagrad":
        return ""
    given = found.get("weight_decay")
    groups = site.module.source(found["params"]) if "params" in found else ""
    if not is_zero(given) or (given is None and name in ("AdamW", "ASGD")) or "weight_decay" in groups:
        return "weight decay"
    hidden = any(argument.star for argument in built.args) or (name not in POSITIONAL and _is_long(built))
    return "weight decay, if there is any," if hidden or _is_out_of_sight(found.get("params")) else ""


def _is_long(built: cst.Call) -> bool:
    return sum(argument.keyword is None for argument in built.args) > 2


def _is_out_of_sight(parameters: cst.BaseExpression | None) -> bool:
    """Whether ``parameters`` may be groups with options of their own: a name, or the result of another function."""
    if isinstance(parameters, cst.Call):
        return dotted_name(parameters.func).rpartition(".")[2] not in ("parameters", "filter", "list", "chain")
    return isinstance(parameters, (cst.Name, cst.Attribute))


def _is_wrapped(site: Site, context: Context, *, before: bool) -> bool:
    """Whether an optimizer is wrapped before, or after, the site in its function."""
    index = site.module.index
    wrappers = (w for w in context.uses(WRAPPER) if w.module is site.module and w.scope is site.scope)
    return any(index.before(w.target, site.target) is before for w in wrappers)


def _construction(node: cst.BaseExpression, site: Site) -> cst.Call | None:
    """The call of a torch.optim class that built the optimizer, where that is certain."""
    if isinstance(node, cst.Name):
        values = [b.value for b in site.scope.lookup(node.value)]
        calls = [
            v for v in values if isinstance(v, cst.Call) and not symbol_of(v.func, site.module).startswith("horovod")
        ]
        others = [v for v in values if not isinstance(v, cst.Call)]
        return calls[0] if len(calls) == 1 and not others and _is_optimizer(calls[0], site) else None
    return node if isinstance(node, cst.Call) and _is_optimizer(node, site) else None


def _is_optimizer(call: cst.Call, site: Site) -> bool:
    return symbol_of(call.func, site.module).startswith("torch.optim.")


def _may_change(node: cst.BaseExpression, site: Site, context: Context) -> bool:
    """Whether anything but known calls touches the optimizer before the site, or some state is loaded at all."""
    models = {dotted_name(plan.model).rpartition(".")[2] for plan in context.plan(Plan) if plan.model is not None}
    loads = (a for module in context.modules for a in module.index.attributes["load_state_dict"])
    if any(dotted_name(load.value).rpartition(".")[2] not in models for load in loads):
        return True
    index = site.module.index
    references = index.references[node.value] if isinstance(node, cst.Name) else ()
    earlier = (r.node for r in references if index.before(r.node, site.target) and r.node is not node)
    return any(not _is_harmless(reference, site) for reference in earlier)


def _is_harmless(node: cst.Name, site: Site) -> bool:
    """Whether ``node`` stands where the optimizer is wrapped, or handed to a scheduler of learning rates."""
    holder = site.module.index.parent(node)
    call = site.module.index.parent(holder) if isinstance(holder, cst.Arg) else None
    if not isinstance(call, cst.Call):
        return False
    symbol = symbol_of(call.func, site.module)
    return symbol.startswith(("torch.optim.lr_scheduler.", "horovod.torch."))
