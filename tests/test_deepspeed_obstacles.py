"""What an engine of DeepSpeed has no place for is said, each with its reason and at its place."""

from __future__ import annotations

import pytest

from migrator.config import Settings
from migrator.engine import migrate_text

START = """
import torch
import horovod.torch as hvd

hvd.init()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
WRAP = "optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())\n"
LOOP = """
for batch in loader:
    optimizer.zero_grad()
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
"""
CLIPPED = LOOP.replace("    optimizer.step", "    {clip}\n    optimizer.step")
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), {})"


def with_clip(text: str) -> str:
    return START + WRAP + CLIPPED.format(clip=text)


def wrapped_with(options: str) -> str:
    return START + WRAP.replace("(optimizer,", f"(optimizer, {options},") + LOOP


def blocked(source: str, settings: Settings) -> dict[str, list[int]]:
    """The lines of each reason against the program, the optimizer's own left out."""
    result = migrate_text("program.py", source.encode(), settings)
    found: dict[str, list[int]] = {}
    for finding in result.findings:
        if finding.class_ == "blocked":
            found.setdefault(finding.message.removeprefix("--target deepspeed: "), []).append(finding.line)
    return found


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (wrapped_with("process_set=hvd.ProcessSet([0])"), "gradients are reduced within a process set"),
        (wrapped_with("sparse_as_dense=True"), "there are sparse gradients"),
        (wrapped_with("op=hvd.Adasum"), "Adasum has no counterpart in torch.distributed"),
        (START + WRAP + LOOP + "hvd.join()\n", "ranks join at different times, and an engine waits for all of them"),
        (
            START + WRAP + LOOP + "state = hvd.elastic.TorchState(model=model, optimizer=optimizer)\n",
            "the program is elastic",
        ),
        (
            START.replace("model.parameters()", "model.weight.parameters()") + WRAP + LOOP,
            "the optimizer updates a part of the model only",
        ),
        (
            START + WRAP + LOOP.replace("backward()", "backward(retain_graph=True)"),
            "there may be more than one backward on one forward",
        ),
        (
            START + WRAP.replace("model.named", "model.part.named") + LOOP,
            "the model is 'model.part', a part of something else",
        ),
        (
            START.replace("Linear(4, 2)", "DataParallel(net)") + WRAP + LOOP,
            "the model is wrapped by DataParallel already",
        ),
        (START + WRAP + LOOP.replace("    optimizer.step()\n", ""), "no step of the optimizer is in sight"),
        (
            START + "model(batch).mean().backward()\noptimizer.zero_grad()\n" + WRAP + LOOP,
            "the model runs before the place where its engine can be made",
        ),
        (
            START
            + "def fit(net):\n"
            + LOOP.replace("\n", "\n    ").replace("model(", "net(")
            + "\nfit(model)\n"
            + WRAP,
            "the model trains before the place where its engine can be made",
        ),
        (
            START + "def fit():\n" + LOOP.replace("\n", "\n    ") + "\nfit()\n" + WRAP,
            "the model runs before the place where its engine can be made",
        ),
        (
            START + WRAP + "def show(net):\n    net(1).mean().backward()\nshow(model)\nshow(other)\n" + LOOP,
            "the loss is not computed by a call of the model in the same function",
        ),
        (with_clip(CLIP.format("1.0, norm_type=1")), "an engine clips by the 2-norm only"),
        (
            with_clip(CLIP.format("1.0, error_if_nonfinite=True")),
            "an engine does not raise an error for a norm that is not finite",
        ),
        (
            with_clip("torch.nn.utils.clip_grad_norm_(parameters, 1.0)"),
            "an engine clips all gradients of its model together, and here others may be clipped",
        ),
        (
            with_clip(CLIP.format("batch.max()")),
            "the norm that gradients are clipped to is not known where the engine is made",
        ),
        (
            with_clip(f"if batch.any(): {CLIP.format(1.0)}"),
            "gradients are clipped under a condition that is not about the norm",
        ),
        (
            with_clip("optimizer.add_param_group({})"),
            "parameters are added to the optimizer, which an engine does not see",
        ),
        (with_clip("model.double()"), "an engine as it is configured here trains float32, not double()"),
    ],
)
def test_reasons(source: str, reason: str) -> None:
    found = blocked(source, Settings(target="deepspeed"))
    assert any(each.removesuffix("; --target ddp would do") == reason for each in found), found


@pytest.mark.parametrize("gradients", ["ddp", "optimizer"])
def test_gradients_are_for_another_target(gradients: str) -> None:
    settings = Settings(target="deepspeed", gradients=gradients)  # type: ignore[arg-type]
    assert f"--gradients {gradients} is about another target; --target ddp would do" in blocked(
        START + WRAP + LOOP, settings
    )


def test_every_place_is_named() -> None:
    source = with_clip("print(model.weight.grad)\n    scaler = torch.amp.GradScaler()")
    line = source[: source.index("print")].count("\n") + 1
    found = blocked(source, Settings(target="deepspeed"))
    assert [lines for reason, lines in found.items() if reason.startswith("gradients are read")] == [[line]]
    assert [lines for reason, lines in found.items() if reason.endswith("around the engine")] == [[line + 1]]


@pytest.mark.parametrize(
    ("clip", "norm"),
    [
        (CLIP.format(0.5), "0.5"),
        (CLIP.format("limit"), "limit"),
        (f"if limit > 0: {CLIP.format('limit')}", "limit or 0.0"),
        (f"if limit: {CLIP.format('limit')}", "limit or 0.0"),
        (f"if limit is not None: {CLIP.format('limit')}", "limit or 0.0"),
    ],
)
def test_norms(clip: str, norm: str) -> None:
    source = START + "limit = read()\n" + WRAP + CLIPPED.format(clip=clip)
    (file,) = migrate_text("program.py", source.encode(), Settings(target="deepspeed")).files
    assert f'"gradient_clipping": {norm},' in file.after.decode()
    assert "clip_grad_norm_" not in file.after.decode()


def test_a_name_of_its_own_for_the_engine() -> None:
    taken = "engine = model_engine = deepspeed_engine = 0\n"
    (file,) = migrate_text("program.py", (START + taken + WRAP + LOOP).encode(), Settings(target="deepspeed")).files
    assert "engine_2.step()" in file.after.decode()
