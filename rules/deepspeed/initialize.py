"""HVD571 deepspeed-initialize: the model and its optimizer become an engine.

``deepspeed.initialize`` broadcasts rank 0's parameters and returns an engine that averages gradients, clips them, steps
the optimizer and zeroes them. It is given the program's own optimizer, because ``"Adam"`` in DeepSpeed's configuration
is AdamW. The clipping is always written down: without it DeepSpeed clips to a norm of 1.0, which changes results. The
number of accumulation steps stays 1, because the engine divides the loss by it and the program does that itself; where
several backwards come before a step, ``managed_gradient_accumulation`` leaves it to the program when to reduce, as
Horovod did, and DeepSpeed releases that do not know it reduce after every backward, which gives the same mean.

As long as the program reads its data itself, the batch size serves DeepSpeed's own measurements only. The model stays
what it was, so that checkpoints, evaluations and learning-rate schedulers do not change.

Example:

```python
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
```

Use instead:

```python
engine, optimizer, _, _ = deepspeed.initialize(
    model=model,
    optimizer=optimizer,
    config={
        "train_micro_batch_size_per_gpu": batch_size,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 0.0,
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator

from migrator.api import Context, Finding, Insert, Site, Template, cst, expression, rule

from ..torch.plan import Plan
from ..values import possible_values, symbol_of
from .engine import Engine
from .names import DEEPSPEED, INITIALIZE


@rule("HVD571", "deepspeed-initialize", symbols=[INITIALIZE])
def initialize(site: Site, context: Context) -> Finding:
    plan = next(p for p in context.plan(Plan) if p.engine is not None and p.engine.wrap.target is site.target)
    engine = plan.engine
    assert engine is not None
    statement = engine.wrap.statement
    assert statement is not None
    template = _statements(plan, engine)
    edits = [Insert(statement, "after", template)]
    return site.found("review", _message(plan, engine), edits, imports=[DEEPSPEED])


def _statements(plan: Plan, engine: Engine) -> Template:
    is_own = engine.wrap is plan.site
    parts: dict[str, cst.CSTNode] = {"model": plan.model} if plan.model is not None else {}
    parts |= {"target": engine.optimizer, "optimizer": plan.options.optimizer if is_own else engine.optimizer}
    config = "".join(f'        "{key}": {value},\n' for key, value in _config(plan, engine, parts))
    call = (
        f"deepspeed.initialize(\n    model={{model}},\n    optimizer={{optimizer}},\n    config={{\n{config}    }},\n)"
    )
    names = f"{engine.name}, {{target}}"
    is_free = not plan.site.module.index.references["_"]
    text = f"{names}, _, _ = {call}" if is_free else f"{names} = {call}[:2]"
    if engine.is_global:
        text = f"global {engine.name}\n{text}"
    return expression(text, **parts)


def _config(plan: Plan, engine: Engine, parts: dict[str, cst.CSTNode]) -> Iterator[tuple[str, str]]:
    yield "train_micro_batch_size_per_gpu", engine.batch_size.text if engine.batch_size is not None else "1"
    yield "gradient_accumulation_steps", "1"
    if engine.accumulates:
        yield "managed_gradient_accumulation", "False"
    yield "gradient_clipping", engine.clipping.text if engine.clipping is not None else "0.0"
    if plan.options.compression is not None:
        yield "communication_data_type", _compression(plan, plan.options.compression, parts)


def _compression(plan: Plan, node: cst.BaseExpression, parts: dict[str, cst.CSTNode]) -> str:
    """The type in which gradients travel: fp16, or that under the condition that the program asks for it."""
    if plan.options.always_compresses:
        return '"fp16"'
    if isinstance(node, cst.IfExp):
        parts["test"] = node.test
        (first,) = (symbol_of(v, plan.site.module) if v else "" for v in possible_values(node.body, plan.site.module))
        return '"fp16" if {test} else None' if first.endswith(".fp16") else 'None if {test} else "fp16"'
    parts["compression"] = node
    return '"fp16" if {compression} else None'


def _message(plan: Plan, engine: Engine) -> str:
    notes = [
        f"DistributedOptimizer → deepspeed.initialize, whose engine averages, steps and zeroes; {_clipping(engine)}. "
        "Assumes that buffers are alike on all ranks by then: DeepSpeed broadcasts parameters only"
    ]
    if engine.keeps_broadcast:
        notes = [notes[0].partition(". ")[0]]
    if engine.batch_size is None:
        notes.append("train_micro_batch_size_per_gpu is not known here; only what DeepSpeed measures depends on it")
    if engine.accumulates:
        notes.append(
            "gradients are accumulated as before: managed_gradient_accumulation=False reduces them once, at the step "
            "(a DeepSpeed that does not know it reduces after each backward), and gradient_accumulation_steps=1 leaves "
            "the loss to the program's own division"
        )
    if plan.options.compression is not None:
        notes.append("fp16 gradients are averaged in fp16, as Horovod's")
    if not plan.is_broadcast:
        notes.append("Horovod left each rank its own first weights here, DeepSpeed gives all rank 0's")
    return "; ".join(notes)


def _clipping(engine: Engine) -> str:
    if engine.clipping is None:
        return "gradient_clipping is written as 0.0, because its default of 1.0 changes results"
    return f"gradients are clipped to {engine.clipping.text} by the engine"
