"""Programs for every way in which gradients and optimizer state are treated, and what has to become of each.

A case is a program of ``programs/gradients``, changed by replacing text, and what is expected of its migration,
decided by hand: the strategy that ``--gradients auto`` takes, with words of its reason; what ``--gradients ddp`` leads
to, where that is tried; which numbers are not Horovod's, with words of the finding that says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

FOLDER = Path(__file__).resolve().parent / "programs" / "gradients"
Strategy = Literal["ddp", "optimizer", "refused"]


@dataclass(frozen=True)
class Difference:
    """The keys whose values are not Horovod's on some rank, and words of the finding that says why."""

    keys: tuple[str, ...]
    because: str


@dataclass(frozen=True)
class Case:
    """A program, and what is expected of it; ``unstable`` says why Horovod is no reference for it."""

    name: str
    row: str
    program: str
    changes: Mapping[str, str] = field(default_factory=dict)
    auto: Strategy = "ddp"
    because: str = ""
    ddp: Strategy | None = None
    by_ddp: Difference | None = None
    by_optimizer: Difference | None = None
    ranks: int = 2
    unstable: str = ""

    @property
    def source(self) -> str:
        """The text of the program."""
        text = (FOLDER / f"{self.program}.py").read_text("utf-8")
        for old, new in self.changes.items():
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {old!r} is {text.count(old)} times in {self.program}")
            text = text.replace(old, new)
        return text


SGD = "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)"
ADAM = "torch.optim.Adam(model.parameters(), lr=0.01)"
WRAP = "hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())"
SEVERAL = "the program has several optimizers"
SOME_LAYERS = "TwoHeads decides while it runs which layers take part"
BUFFERS = "DDP keeps rank 0's buffers on all ranks, Horovod kept each rank's own"


def wrap(option: str) -> str:
    return f"hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), {option})"


def optimizers() -> Iterator[Case]:
    yield Case("sgd_momentum", "a SGD-momentum", "classifier")
    for name, row, new in (
        ("sgd_nesterov", "a SGD nesterov+wd", SGD[:-1] + ", weight_decay=0.01, nesterov=True)"),
        ("adam", "a Adam", ADAM),
        ("adamw", "a AdamW wd .1", "torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)"),
        ("rmsprop", "a RMSprop", "torch.optim.RMSprop(model.parameters(), lr=0.01)"),
    ):
        yield Case(name, row, "classifier", {SGD: new})


def batch_norm() -> Iterator[Case]:
    yield Case(
        "batchnorm",
        "b CNN+BN: weights, buffers, evaluation on rank 0",
        "batchnorm",
        by_ddp=Difference(("buffers",), BUFFERS),
    )
    yield Case(
        "batchnorm_evaluated_everywhere",
        "b evaluation on every rank",
        "batchnorm",
        {"    if hvd.rank() == 0:\n        evaluate(model)": "    evaluate(model)"},
        by_ddp=Difference(("buffers", "evaluation"), BUFFERS),
    )


def unused_parameters() -> Iterator[Case]:
    sgd = "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.05)"
    adamw = "torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.5)"
    for name, row, when in (
        ("unused", "c unused on all ranks", "False"),
        ("unused_every_second_step", "c unused every second step", "step % 2 == 0"),
        ("unused_before_step_5", "c first used at step 5", "step >= 5"),
        ("unused_on_rank_1", "c unused on one rank", "hvd.rank() == 0"),
    ):
        used = {"auxiliary=False": f"auxiliary={when}"}
        yield Case(f"{name}_sgd", f"{row}, SGD-m+wd", "auxiliary_head", used, "optimizer", SOME_LAYERS)
        used = used | {sgd: adamw}
        yield Case(f"{name}_adamw", f"{row}, AdamW", "auxiliary_head", used, "optimizer", SOME_LAYERS)
    yield Case(
        "unused_alone", "extra: np=1, unused parameter, wd", "auxiliary_head", {}, "optimizer", SOME_LAYERS, ranks=1
    )
    yield Case(
        "unused_in_loss",
        "c unused every second step, by the loss",
        "auxiliary_loss",
        {},
        "optimizer",
    )
    yield Case(
        "unused_part",
        "c unused on all ranks, by the loss",
        "auxiliary_loss",
        {
            "scores, restored = model(x)": "outputs = model(x)",
            "F.cross_entropy(scores, y)": "F.cross_entropy(outputs[0], y)",
            "    if step % 2 == 0:\n        loss = loss + 0.1 * F.mse_loss(restored, x)\n": "",
        },
        "optimizer",
    )
    feature = "            x = torch.relu(self.hidden(x))\n"
    yield Case(
        "unused_without_gradient",
        "c unused on all ranks, by no_grad in forward",
        "classifier",
        {
            "        return self.out(torch.relu(self.hidden(x)))\n": f"        with torch.no_grad():\n{feature}"
            "        return self.out(x)\n",
            SGD: adamw,
        },
        "optimizer",
    )
    yield Case(
        "unused_layers",
        "c unused on all ranks, by a slice",
        "depth",
        {},
        "optimizer",
    )


def accumulation() -> Iterator[Case]:
    because = "gradients are accumulated over several backward passes"
    for name, row, changes in (
        ("accumulate_sgd", "d bpps=2, SGD-m", {}),
        ("accumulate_adam", "d bpps=2, Adam", {SGD: ADAM}),
        ("accumulate_divided", "d bpps=2, loss÷2", {"loss.backward()": "(loss / ACCUMULATE).backward()"}),
        ("accumulate_incomplete", "d incomplete last group", {"BATCHES = 12": "BATCHES = 11"}),
    ):
        yield Case(name, row, "accumulate", changes, "optimizer", because)


def clipping() -> Iterator[Case]:
    skip = "    with optimizer.skip_synchronize():\n        optimizer.step()"
    no_skip = {skip: "    optimizer.step()"}
    sums = {"op=hvd.Average": "op=hvd.Sum"}
    yield Case("clip_sgd", "e synchronize+clip+skip_synchronize, SGD-m", "clip")
    yield Case("clip_adam", "e synchronize+clip+skip_synchronize, Adam", "clip", {SGD: ADAM})
    yield Case("clip_without_skip", "e clip, synchronize without skip", "clip", no_skip)
    handed_on = "norms = []\nsetattr(model, 'trained_by', optimizer)\n"
    first = handed_on + "with optimizer.skip_synchronize():\n    optimizer.step()\n"
    yield Case(
        "clip_handed_on",
        "e a step before the first backward skips too; the optimizer is handed on, AdamW with wd",
        "clip",
        {SGD: "torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)", "norms = []\n": first},
        "optimizer",
        "code out of sight must not step it",
    )
    yield Case("clip_sum", "e same with op=Sum and skip", "clip", sums, "optimizer", "the gradients are summed")
    yield Case(
        "clip_sum_without_skip",
        "e op=Sum, no skip (Horovod itself sums twice)",
        "clip",
        sums | no_skip,
        "optimizer",
        "the gradients are summed",
        by_optimizer=Difference(("norms", "weights"), "Horovod summed twice"),
    )


def gans() -> Iterator[Case]:
    freeze = "        for p in netD.parameters():\n            p.requires_grad_(True)\n"
    thaw = freeze.replace("True", "False")
    one = (
        "        errD = criterion(netD(real), ones) + criterion(netD(fake.detach()), zeros)\n        errD.backward()\n"
    )
    two = (
        "        errD_real = criterion(netD(real), ones)\n        errD_real.backward()\n"
        "        errD_fake = criterion(netD(fake.detach()), zeros)\n        errD_fake.backward()\n"
    )
    free = {freeze: "", thaw: ""}
    passes = "backward_passes_per_step=1"
    norm = {
        "nn.Linear(4, 16), nn.ReLU()": "nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU()",
        "nn.Linear(10, 16), nn.LeakyReLU(0.2)": "nn.Linear(10, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2)",
    }
    more, most = ({passes: f"backward_passes_per_step={n}"} for n in (2, 3))
    for name, row, changes in (
        ("gan", "f GAN, D frozen in G's step; one D backward", {}),
        ("gan_free", "f GAN, D not frozen", free | more),
        ("gan_norm", "f GAN with BN, one D backward", norm),
    ):
        buffers = Difference(("buffers",), BUFFERS) if name == "gan_norm" else None
        yield Case(name, row, "gan", changes, "optimizer", SEVERAL, ddp="ddp", by_ddp=buffers)
    for name, row, changes in (
        ("gan_two_backwards", "f GAN, two backwards into D per step", {one: two} | more),
        ("gan_free_two_backwards", "f GAN, two backwards, D not frozen", free | {one: two} | most),
        ("gan_norm_two_backwards", "f GAN with BN, two backwards, Adam", norm | {one: two} | more),
    ):
        yield Case(name, row, "gan", changes, "optimizer", SEVERAL)


def options() -> Iterator[Case]:
    summed, fp16 = "the gradients are summed", "gradients may travel as fp16"
    sums, half = {WRAP: wrap("op=hvd.Sum")}, {WRAP: wrap("compression=hvd.Compression.fp16")}
    adam = {SGD: ADAM}
    loss = "F.cross_entropy(model(x), y)"
    digit = "the last digit may differ unless it is a power of two"
    of_sgd, of_adam = Difference(("weights",), digit), Difference(("losses", "weights"), digit)
    third = {WRAP: wrap("gradient_predivide_factor=3.0")}
    yield Case("sum_sgd", "g op=Sum SGD-m", "classifier", sums, "optimizer", summed)
    yield Case("sum_adam", "g op=Sum Adam", "classifier", sums | adam, "optimizer", summed)
    yield Case("predivide_4", "g predivide 4", "classifier", {WRAP: wrap("gradient_predivide_factor=4.0")})
    yield Case("predivide_3_sgd", "g predivide 3 SGD", "classifier", third, by_ddp=of_sgd, by_optimizer=of_sgd)
    yield Case(
        "predivide_3_adam", "g predivide 3 Adam", "classifier", third | adam, by_ddp=of_adam, by_optimizer=of_adam
    )
    yield Case("num_groups", "g groups", "classifier", {WRAP: wrap("num_groups=1")})
    yield Case("groups", "g groups", "classifier", {WRAP: wrap("groups=[list(model.parameters())]")})
    yield Case("fp16_sgd", "g fp16, SGD-m", "classifier", half, "optimizer", fp16)
    yield Case("fp16_adam", "g fp16, Adam", "classifier", half | adam, "optimizer", fp16)
    tiny = {loss: f"1e-4 * {loss}"}
    yield Case("fp16_tiny", "g fp16, gradients times 1e-4, Adam", "classifier", half | adam | tiny, "optimizer", fp16)
    yield Case(
        "subnormal",
        "g gradients in fp32 subnormal range (no finding can tell)",
        "classifier",
        {SGD: "torch.optim.SGD(model.parameters(), lr=1e37)", loss: f"1e-38 * {loss}"},
        by_ddp=Difference(("losses", "weights"), ""),
    )


def sparse() -> Iterator[Case]:
    sgd = "torch.optim.SGD(model.parameters(), lr=0.5)"
    few = {"VOCABULARY = 50": "VOCABULARY = 5"}
    dense = {WRAP: wrap("sparse_as_dense=True")}
    because = "there are sparse gradients"
    for name, row, changes in (
        ("sparse_sgd", "h sparse SGD", {}),
        ("sparse_few_ids", "h sparse few ids", few),
        ("sparse_momentum", "h sparse SGD-m", {sgd: SGD}),
        ("sparse_as_dense", "h sparse_as_dense", dense),
        ("sparse_as_dense_few_ids", "h sparse_as_dense", dense | few),
    ):
        yield Case(name, row, "embedding", changes, "optimizer", because)
    two = "embedding_two_optimizers"
    yield Case("sparse_adam", "h SparseAdam + Adam", two, {}, "optimizer", SEVERAL)
    yield Case("sparse_adam_few_ids", "h SparseAdam + Adam, few ids", two, few, "optimizer", SEVERAL)


def scalers() -> Iterator[Case]:
    clip = "        scaler.unscale_(optimizer)\n        nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n"
    adamw = {SGD: "torch.optim.AdamW(model.parameters(), lr=0.01)"}
    scale = "        scaler.scale(loss).backward()\n"
    bad = '        if step == 4 and hvd.rank() == 1:\n            loss = loss * float("inf")\n'
    skip = "        with optimizer.skip_synchronize():\n            scaler.step(optimizer)\n"
    plain = {"        optimizer.synchronize()\n": "", skip: "        scaler.step(optimizer)\n", clip: ""}
    unscaled = Difference((), "Horovod reduced them after the scaler had looked at each rank's own")
    yield Case("scaler_sgd", "i GradScaler, sync+unscale_+clip", "scaler")
    yield Case("scaler_adamw", "i the same, AdamW", "scaler", adamw)
    yield Case("scaler_autocast", "i AdamW, bf16 autocast", "scaler", adamw | {"enabled=False": "enabled=True"})
    yield Case("scaler_without_clip", "i no clip", "scaler", {clip: ""})
    yield Case("scaler_inf_on_rank_1", "i inf on rank 1 only", "scaler", {scale: bad + scale})
    yield Case(
        "scaler_without_synchronize",
        "i scaler.step without synchronize",
        "scaler",
        plain | {"nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)": "nn.Linear(8, 8192), nn.ReLU(), nn.Linear(8192, 4)"},
        by_ddp=unscaled,
        by_optimizer=unscaled,
        unstable="the scaler unscales gradients that are being reduced",
    )


def closures() -> Iterator[Case]:
    lbfgs = "torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)"
    race = "the step takes gradients that are still being reduced"
    nested = "zero_grad in the closure raises while gradients are being reduced"
    by_ddp = Difference((), "a closure computes the loss")
    for name, row, changes, unstable in (
        ("closure_sgd", "j step(closure), SGD", {}, race),
        ("closure_adam", "j step(closure), Adam", {SGD: ADAM}, race),
        ("closure_lbfgs", "j LBFGS", {SGD: lbfgs}, nested),
    ):
        yield Case(name, row, "closure", changes, "optimizer", "a closure", "ddp", by_ddp=by_ddp, unstable=unstable)
    yield Case(
        "closure_line_search",
        "j LBFGS strong_wolfe",
        "closure",
        {SGD: lbfgs[:-1] + ', line_search_fn="strong_wolfe")'},
        "optimizer",
        "a closure",
        "refused",
        unstable=nested,
    )


def forwards() -> Iterator[Case]:
    yield Case("model_loss", "k model.loss(x)", "model_loss", {}, "optimizer", "'loss' of the model is called")
    yield Case(
        "model_loss_alias",
        "k DDP made but old alias used",
        "model_loss",
        {
            "    model = Net()\n": "    model = Net()\n    loss_of = model.loss\n",
            "= model.loss(x, y)": "= loss_of(x, y)",
        },
        "optimizer",
        "a part of the model, 'loss', gets another name",
    )
    yield Case(
        "two_backwards",
        "k two backwards on one forward (bpps=2)",
        "two_backwards",
        {},
        "optimizer",
        "several backward passes",
    )
    yield Case("checkpointed", "k checkpoint(use_reentrant=False)", "checkpointed")
    yield Case("tied_gru", "k tied embedding + GRU", "tied_gru")


def joins() -> Iterator[Case]:
    because = "ranks join at different times"
    yield Case("join", "n join, one epoch, 6/10 batches", "join", {}, "optimizer", because)
    yield Case("join_two_epochs", "n two epochs", "join", {"EPOCHS = 1": "EPOCHS = 2"}, "optimizer", because)


def schedulers() -> Iterator[Case]:
    step = "torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)"
    made = f"    scheduler = {step}\n"
    loop = "    torch.manual_seed(170 + hvd.rank())\n"
    prefix = "torch.optim.lr_scheduler."
    cosine = {SGD: ADAM, step: prefix + "CosineAnnealingLR(optimizer, T_max=10)"}
    yield Case("step_lr", "o StepLR", "scheduler")
    yield Case("step_lr_after_wrap", "o StepLR attached after", "scheduler", {made: "", loop: made + loop})
    yield Case(
        "lambda_lr", "o LambdaLR", "scheduler", {step: prefix + "LambdaLR(optimizer, lambda step: 1 / (1 + step))"}
    )
    yield Case(
        "one_cycle", "o OneCycle", "scheduler", {step: prefix + "OneCycleLR(optimizer, max_lr=0.2, total_steps=20)"}
    )
    yield Case("adam_cosine", "o Adam+Cosine attached before", "scheduler", cosine)


def modules() -> Iterator[Case]:
    norms = {
        "import horovod.torch as hvd\n": "import horovod.torch as hvd\n"
        "from torch.nn.utils.parametrizations import spectral_norm, weight_norm\n",
        "nn.Linear(12, 24)": "weight_norm(nn.Linear(12, 24))",
        "nn.Linear(24, 4)": "spectral_norm(nn.Linear(24, 4))",
    }
    yield Case("parametrized", "p weight_norm + spectral_norm", "classifier", norms)
    compile_ = 'torch.compile({}, backend="eager")'
    yield Case(
        "compiled", "p torch.compile, then wrap", "classifier", {"model = Net()": f"model = {compile_.format('Net()')}"}
    )
    yield Case(
        "compiled_late",
        "p wrap, then torch.compile",
        "classifier",
        {"losses = []": f"losses = []\ncompiled = {compile_.format('model')}", "(model(x), y)": "(compiled(x), y)"},
        "optimizer",
        "the model is handed to torch.compile()",
    )


def extras() -> Iterator[Case]:
    yield Case(
        "unfreeze",
        "extra: layer frozen at the wrap, unfrozen later",
        "unfreeze",
        {},
        "optimizer",
        "parameters are frozen or unfrozen",
        ddp="ddp",
        by_optimizer=Difference(
            ("losses", "weights"), "Horovod kept to parameters that needed a gradient when it wrapped"
        ),
    )
    yield Case(
        "some_parameters",
        "extra: optimizer over some parameters",
        "classifier",
        {SGD: SGD.replace("model", "model.out"), WRAP: WRAP.replace("model", "model.out")},
        "optimizer",
    )
    yield Case(
        "some_parameters_named_all",
        "extra: optimizer over some parameters, the others stepped on each rank alone",
        "classifier",
        {
            f"optimizer = {SGD}": f"optimizer = {SGD.replace('model', 'model.hidden')}\n"
            f"own = {ADAM.replace('model', 'model.out')}",
            "    optimizer.zero_grad()": "    optimizer.zero_grad()\n    own.zero_grad()",
            "    optimizer.step()": "    optimizer.step()\n    own.step()",
        },
        "optimizer",
    )
    accumulator = Difference(("losses", "weights"), "initial_accumulator_value")
    yield Case(
        "initial_accumulator",
        "2 the wrapper loses what the constructor put into the state: Adagrad",
        "classifier",
        {SGD: "torch.optim.Adagrad(model.parameters(), lr=0.1, initial_accumulator_value=0.5)"},
        by_ddp=accumulator,
        by_optimizer=accumulator,
    )
    yield Case(
        "two_models", "extra: two models in one optimizer", "two_models", {}, "optimizer", "not in sight", "refused"
    )
    path = "is not one forward, one backward and one optimizer step on every path"
    yield Case("no_backward", "extra: step with no backward on any rank", "skipped_backward", {}, "optimizer", path)
    yield Case(
        "no_backward_on_rank_1",
        "extra: one rank skips backward but steps",
        "skipped_backward",
        {"return step % 3 != 2": "return rank == 0 or step % 3 != 2"},
        "optimizer",
        path,
    )


DECAYED = "weight decay moved the weights once, before training"
FIRST_STEP = "its moments then started at step 1"
OPTIMIZERS = {
    "sgd": "SGD(model.parameters(), lr=0.1)",
    "sgd_decay": "SGD(model.parameters(), lr=0.1, weight_decay=0.01)",
    "momentum": "SGD(model.parameters(), lr=0.1, momentum=0.9)",
    "momentum_decay": "SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)",
    "dampening": "SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.5)",
    "adam": "Adam(model.parameters(), lr=0.001)",
    "adamw": "AdamW(model.parameters(), lr=0.001, weight_decay=0.01)",
    "amsgrad": "AdamW(model.parameters(), lr=0.001, weight_decay=0.01, amsgrad=True)",
    "rmsprop": "RMSprop(model.parameters(), lr=0.001)",
    "adagrad": "Adagrad(model.parameters(), lr=0.01)",
    "adagrad_decay": "Adagrad(model.parameters(), lr=0.01, weight_decay=0.1)",
    "adadelta": "Adadelta(model.parameters())",
    "nadam": "NAdam(model.parameters(), lr=0.001)",
    "adamax": "Adamax(model.parameters(), lr=0.001)",
    "radam": "RAdam(model.parameters(), lr=0.001)",
}
BOTH_ORDERS = ("broadcast_wrap", "wrap_broadcast")
HIDDEN_DECAY = {
    "groups": ("SGD([{'params': model.parameters(), 'weight_decay': 0.1}], lr=0.1)", *BOTH_ORDERS),
    "positional": ("SGD(model.parameters(), 0.1, 0.9, 0, 0.1)", *BOTH_ORDERS),
    "starred": ("SGD(model.parameters(), **{'lr': 0.1, 'weight_decay': 0.1})", *BOTH_ORDERS),
    "asgd": ("ASGD(model.parameters(), lr=0.1)", "broadcast_wrap"),
}
BROADCAST_FIRST = {"sgd_decay": DECAYED, "momentum_decay": DECAYED, "adamw": DECAYED, "amsgrad": DECAYED}
WRAP_FIRST = {
    "sgd": "",
    "sgd_decay": DECAYED,
    "momentum": "",
    "momentum_decay": DECAYED,
    "dampening": "dampening",
    "adam": FIRST_STEP,
    "adamw": DECAYED,
    "rmsprop": "",
    "adagrad_decay": "",
}


def fresh_states() -> Iterator[Case]:
    sgd = "torch.optim.SGD(model.parameters(), lr=0.1)"
    state = "hvd.broadcast_optimizer_state(optimizer, root_rank=0)\n"
    wrapped = f"optimizer = {WRAP}\n"
    swapped = {state + wrapped: wrapped + state}
    for name, new in OPTIMIZERS.items():
        differs = _fresh_difference(BROADCAST_FIRST.get(name, ""))
        change = {sgd: f"torch.optim.{new}"} if name != "sgd" else {}
        row = f"2 broadcast, then wrap: {name}"
        yield Case(f"broadcast_wrap_{name}", row, "fresh_state", change, by_ddp=differs, by_optimizer=differs)
        if name in WRAP_FIRST:
            differs = _fresh_difference(WRAP_FIRST[name])
            row = f"2 wrap, then broadcast: {name}"
            yield Case(
                f"wrap_broadcast_{name}",
                row,
                "fresh_state",
                change | swapped,
                by_ddp=differs,
                by_optimizer=differs,
            )

    moved = Difference(("losses", "weights"), "moved the weights once")
    for name, (new, *orders) in HIDDEN_DECAY.items():
        for order in orders:
            change = {sgd: f"torch.optim.{new}"} | (swapped if order == "wrap_broadcast" else {})
            row = f"2 {order.replace('_', ', then ')}: decay by {name}"
            yield Case(f"{order}_{name}", row, "fresh_state", change, by_ddp=moved, by_optimizer=moved)


def _fresh_difference(because: str) -> Difference | None:
    return Difference(("losses", "weights"), because) if because else None


def resumed_states() -> Iterator[Case]:
    momentum = _resumed("SGD({}, lr={}, momentum=0.9)")
    wrapped = f"    optimizer = {WRAP}\n"
    broadcast = "    hvd.broadcast_optimizer_state(optimizer, root_rank=0)\n"
    late = {wrapped: "", broadcast: broadcast + wrapped}
    on_rank_0 = (
        "    if hvd.rank() == 0:\n        checkpoint = torch.load(path)\n"
        '        model.load_state_dict(checkpoint["model"])\n'
        '        optimizer.load_state_dict(checkpoint["optimizer"])\n'
    )
    everywhere = on_rank_0.replace("    if hvd.rank() == 0:\n", "").replace("        ", "    ")
    yield Case("resume_adam", "2 wrap, load on rank 0, broadcast: Adam", "resume")
    yield Case("resume_momentum", "2 wrap, load on rank 0, broadcast: SGD-m", "resume", momentum)
    decayed = Difference(("losses", "state", "weights"), "weight decay then changed the weights")
    yield Case(
        "resume_amsgrad",
        "2 same, broadcast_parameters first, weight decay (AdamW)",
        "resume",
        _resumed("AdamW({}, lr={}, amsgrad=True)"),
        by_ddp=decayed,
        by_optimizer=decayed,
    )
    rate = Difference(("losses", "lr", "weights"), "learning rate")
    yield Case(
        "resume_sgd",
        "2 same, plain SGD",
        "resume",
        _resumed("SGD({}, lr={})"),
        by_ddp=rate,
        by_optimizer=rate,
    )
    lost = Difference(
        ("losses", "state", "weights"), "the wrapper that follows then dropped the state, which is kept now"
    )
    for name, row, changes in (
        ("resume_wrap_adam", "2 resume on rank 0, broadcast, then wrap: Adam", late),
        ("resume_wrap_momentum", "2 resume on rank 0, broadcast, then wrap: SGD-m", late | momentum),
        ("resume_everywhere_wrap", "2 resume on all, broadcast, then wrap: Adam", late | {on_rank_0: everywhere}),
    ):
        yield Case(name, row, "resume", changes, by_ddp=lost, by_optimizer=lost)


def _resumed(optimizer: str) -> dict[str, str]:
    """The replacement of Adam, in the run that writes the checkpoint and in the one that reads it."""
    parameters = (("earlier.parameters()", "0.005"), ("model.parameters()", "0.01"))
    return {f"torch.optim.Adam({p}, lr={lr})": f"torch.optim.{optimizer.format(p, lr)}" for p, lr in parameters}


GROUPS = (
    optimizers,
    batch_norm,
    unused_parameters,
    accumulation,
    clipping,
    gans,
    options,
    sparse,
    scalers,
    closures,
    forwards,
    joins,
    schedulers,
    modules,
    extras,
    fresh_states,
    resumed_states,
)
CASES = tuple(case for group in GROUPS for case in group())
