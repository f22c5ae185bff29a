"""Migrated programs with a mistake in them, and others that differ in nothing that matters.

Each is a program of ``parity_programs``, migrated, with pieces of text replaced. ``reason`` is the name of the first
reason that must be given, or text of the error with which the program cannot run; ``blame`` is text of the edit that
made the difference, as it stands in the original or in the migrated program.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrator.config import Gradients, Settings
from migrator.engine import migrate_text

PROGRAMS = Path(__file__).parent / "parity_programs"
CLIP = "    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n"
HOOK = "optimizer.register_step_pre_hook(average_gradients)\n"


@dataclass(frozen=True)
class Variation:
    """A migrated program in which the second text of each pair replaces the first, where that first stands."""

    name: str
    program: str
    replacements: tuple[tuple[str, str], ...]
    reason: str = ""
    blame: str = ""
    gradients: Gradients = "auto"

    @property
    def original(self) -> str:
        """The program before the migration."""
        return (PROGRAMS / f"{self.program}.py").read_text("utf-8")

    @property
    def migrated(self) -> str:
        """The program after the migration, with the replacements made."""
        settings = Settings(gradients=self.gradients, jobs=1)
        (file,) = migrate_text(f"{self.program}.py", self.original.encode(), settings).files
        text = file.after.decode()
        for old, new in self.replacements:
            if old not in text:
                raise ValueError(f"{self.name}: {old!r} is not in the migrated program")
            text = text.replace(old, new, 1)
        return text


MISTAKES = (
    # Gradients
    Variation(
        "gradients summed",
        "accumulation",
        (("        flat /= dist.get_world_size()\n", ""),),
        "sum-for-mean",
        "register_step_pre_hook",
    ),
    Variation(
        "sparse gradients summed",
        "sparse_embedding",
        (("all_gather_cat(p.grad._values()) / dist.get_world_size()", "all_gather_cat(p.grad._values())"),),
        "sum-for-mean",
        "register_step_pre_hook",
    ),
    Variation(
        "accumulated gradients divided",
        "accumulation",
        (("flat /= dist.get_world_size()", "flat /= 2 * dist.get_world_size()"),),
        "divided",
        "register_step_pre_hook",
    ),
    Variation(
        "accumulated gradients dropped",
        "accumulation",
        (("    loss = F.cross", "    optimizer.zero_grad()\n    loss = F.cross"),),
        "other-gradients",
        "optimizer.zero_grad()",
    ),
    Variation(
        "last batches not reduced",
        "accumulation",
        (
            ("import atexit\n", "import atexit\nimport contextlib\n"),
            (
                "    loss = F.cross_entropy(model(x), y) / 2\n    loss.backward()\n",
                "    with contextlib.nullcontext() if number % 2 == 0 else model.no_sync():\n"
                "        loss = F.cross_entropy(model(x), y) / 2\n        loss.backward()\n",
            ),
        ),
        "not-reduced",
        "model.no_sync()",
        "ddp",
    ),
    Variation(
        "gradients of one rank",
        "custom_collectives",
        (("        all_reduce_mean_(parameter.grad)", "        dist.broadcast(parameter.grad, 0)"),),
        "other-gradients",
        "hvd.allreduce_",
    ),
    Variation(
        "gradients halved in precision",
        "rnn_clipping",
        (
            (
                "        dist.all_reduce(flat)\n",
                "        flat = flat.half()\n        dist.all_reduce(flat)\n        flat = flat.float()\n",
            ),
        ),
        "half-precision",
        "optimizer.synchronize()",
        "optimizer",
    ),
    Variation(
        "reduced after the step",
        "two_optimizers",
        ((f"maker_{HOOK}", "maker_optimizer.register_step_post_hook(average_gradients)\n"),),
        "not-reduced",
        "maker_optimizer = hvd.DistributedOptimizer",
    ),
    Variation(
        "a model left out of the reduction",
        "two_optimizers",
        ((f"judge_{HOOK}", ""),),
        "not-reduced",
        "judge_optimizer = hvd.DistributedOptimizer",
    ),
    Variation(
        "a layer left out of the reduction",
        "unused_parameters",
        ((' for p in group["params"] if p.requires_grad)', ' for p in group["params"][1:] if p.requires_grad)'),),
        "not-reduced",
        "register_step_pre_hook",
    ),
    Variation(
        "unused parameters skipped",
        "unused_parameters",
        ((HOOK, "model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)\n"),),
        "missing-gradient",
        "hvd.DistributedOptimizer",
    ),
    Variation(
        "model not wrapped",
        "mlp",
        (("model = DDP(model)\n", ""), ("model.module.", "model.")),
        "not-broadcast",
        "hvd.DistributedOptimizer",
    ),
    Variation(
        "forward around the wrapper",
        "mlp",
        (("F.cross_entropy(model(x), y)", "F.cross_entropy(model.module(x), y)"),),
        "not-reduced",
        "F.cross_entropy",
    ),
    Variation(
        "loss divided by the world size",
        "mlp",
        (("F.cross_entropy(model(x), y)", "F.cross_entropy(model(x), y) / dist.get_world_size()"),),
        "divided",
        "F.cross_entropy",
    ),
    # Clipping and mixed precision
    Variation(
        "clipping before averaging",
        "rnn_clipping",
        (("    average_gradients(optimizer)\n", ""), (CLIP, f"{CLIP}    average_gradients(optimizer)\n")),
        "clipped-too-early",
        "optimizer.synchronize()",
        "optimizer",
    ),
    Variation("clipping lost", "rnn_clipping", ((", 0.1)", ', float("inf"))'),), "not-clipped", "clip_grad_norm_"),
    Variation(
        "clipping before unscaling",
        "amp_loop",
        (
            ("    scaler.unscale_(optimizer)\n", ""),
            (
                "    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n",
                "    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n    scaler.unscale_(optimizer)\n",
            ),
        ),
        "clipped-otherwise",
        "clip_grad_norm_",
    ),
    # Weights, states and files
    Variation(
        "weights not broadcast",
        "accumulation",
        (("\nbroadcast_parameters(model.state_dict())\n", "\n"),),
        "not-broadcast",
        "hvd.broadcast_parameters",
    ),
    Variation(
        "weights of the wrong rank",
        "accumulation",
        (("(model.state_dict())", "(model.state_dict(), 1)"),),
        "other-start",
        "hvd.broadcast_parameters",
    ),
    Variation(
        "wrapped before the last load",
        "resumed_checkpoint",
        (("\nbroadcast_parameters(model.state_dict())\nbroadcast_optimizer_state", "\nbroadcast_optimizer_state"),),
        "not-broadcast",
        "hvd.broadcast_parameters",
        "ddp",
    ),
    Variation(
        "broadcast before the last load",
        "resumed_checkpoint",
        (("\nbroadcast_parameters(model.state_dict())\nbroadcast_optimizer_state", "\nbroadcast_optimizer_state"),),
        "not-broadcast",
        "hvd.broadcast_parameters",
    ),
    Variation(
        "optimizer state not broadcast",
        "resumed_checkpoint",
        (("\nbroadcast_optimizer_state(optimizer)\n", "\n"),),
        "ranks-part",
        "hvd.broadcast_optimizer_state",
    ),
    Variation(
        "options not broadcast",
        "custom_collectives",
        (("options = broadcast_object(", "options = ("),),
        "TypeError: 'NoneType' object is not subscriptable",
        "hvd.broadcast_object",
    ),
    Variation("momentum lost", "mlp", ((", momentum=0.9)", ")"),), "other-update", "momentum=0.9"),
    Variation(
        "keys of the wrapper in the checkpoint",
        "mlp",
        (("model.module.state_dict()", "model.state_dict()"),),
        "module-prefix",
        "model = DDP(model)",
    ),
    Variation(
        "every rank saves",
        "mlp",
        (("if dist.get_rank() == 0:\n    torch.save(", "if True:\n    torch.save("),),
        "other-saves",
        "hvd.rank() == 0",
    ),
    Variation(
        "statistics of batch norm shared",
        "cnn_batchnorm",
        (("DDP(model)", "DDP(nn.SyncBatchNorm.convert_sync_batchnorm(model))"),),
        "ValueError: SyncBatchNorm",
        "SyncBatchNorm",
    ),
    # Data
    Variation("no set_epoch", "mlp", (("    sampler.set_epoch(epoch)\n", ""),), "no-set-epoch", "sampler.set_epoch"),
    Variation(
        "every rank reads the same data",
        "mlp",
        (("rank=dist.get_rank())", "rank=0)"),),
        "not-sharded",
        "DistributedSampler",
    ),
    Variation(
        "every rank reads all data",
        "mlp",
        (("num_replicas=dist.get_world_size(), rank=dist.get_rank()", "num_replicas=1, rank=0"),),
        "not-sharded",
        "DistributedSampler",
    ),
    Variation(
        "data seeded alike on all ranks",
        "accumulation",
        (("30 + dist.get_rank()", "30"),),
        "not-sharded",
        "manual_seed(30",
    ),
    Variation(
        "data not shuffled",
        "mlp",
        (("rank=dist.get_rank())", "rank=dist.get_rank(), shuffle=False)"),),
        "other-batches",
        "DistributedSampler",
    ),
    Variation(
        "batch divided among the ranks",
        "mlp",
        (("batch_size=8", "batch_size=8 // dist.get_world_size()"),),
        "other-batches",
        "batch_size=8",
    ),
    Variation(
        "epochs divided among the ranks",
        "mlp",
        (("range(2)", "range(2 // dist.get_world_size())"),),
        "other-steps",
        "range(2",
    ),
    Variation("ranks not joined", "uneven_join", (("\njoin(optimizer)\n", "\n"),), "missing-collective", "hvd.join"),
    # Learning rate
    Variation(
        "learning rate scaled twice",
        "mlp",
        (("0.05 * dist.get_world_size()", "0.05 * dist.get_world_size() ** 2"),),
        "rate-scaled",
        "lr=0.05",
    ),
    Variation("learning rate not scaled", "mlp", (("0.05 * dist.get_world_size()", "0.05"),), "rate-scaled", "lr=0.05"),
    Variation(
        "schedule stepped with each batch",
        "mlp",
        (
            (
                "        total += loss.detach()\n    scheduler.step()\n",
                "        total += loss.detach()\n        scheduler.step()\n",
            ),
        ),
        "other-schedule",
        "scheduler.step()",
    ),
    # Metrics and other collectives
    Variation(
        "metric reduced on one rank",
        "mlp",
        (
            (
                "    mean = all_reduce_mean(total / len(loader))\n    if dist.get_rank() == 0:\n",
                "    if dist.get_rank() == 0:\n        mean = all_reduce_mean(total / len(loader))\n",
            ),
        ),
        "missing-collective",
        "hvd.allreduce",
    ),
    Variation(
        "metric not reduced",
        "mlp",
        (("mean = all_reduce_mean(total / len(loader))", "mean = total / len(loader)"),),
        "missing-collective",
        "hvd.allreduce",
    ),
    Variation(
        "metric summed",
        "mlp",
        (("mean = all_reduce_mean(total / len(loader))", "mean = total / len(loader)\n    dist.all_reduce(mean)"),),
        "metric-sum",
        "hvd.allreduce",
    ),
    Variation(
        "count averaged",
        "custom_collectives",
        (("dist.all_reduce(result, op)\n", "dist.all_reduce(result, op)\n    result //= dist.get_world_size()\n"),),
        "metric-mean",
        "op=hvd.Sum",
    ),
    Variation(
        "smallest for largest",
        "custom_collectives",
        (("dist.ReduceOp.MAX", "dist.ReduceOp.MIN"),),
        "other-reduction",
        "op=hvd.Max",
    ),
    Variation(
        "rows of the shortest gathered",
        "custom_collectives",
        (("all_gather_cat(scores.argmax(1))", "all_gather_cat(scores.argmax(1)[:4])"),),
        "other-collective",
        "hvd.allgather(",
    ),
    Variation(
        "objects gathered on one rank",
        "custom_collectives",
        (
            (
                'everyone = all_gather_object({"rank": dist.get_rank(), "loss": round(loss.item(), 6)})\n'
                "if dist.get_rank() == 0:\n",
                "if dist.get_rank() == 0:\n"
                '    everyone = all_gather_object({"rank": dist.get_rank(), "loss": round(loss.item(), 6)})\n',
            ),
        ),
        "missing-collective",
        "hvd.allgather_object",
    ),
    Variation(
        "every rank prints",
        "mlp",
        (("    if dist.get_rank() == 0:\n        print", "    if True:\n        print"),),
        "other-lines",
        "if hvd.rank() == 0",
    ),
)

HARMLESS = (
    Variation("as it is", "mlp", ()),
    Variation("averaged at the optimizer", "mlp", (), gradients="optimizer"),
    Variation(
        "helpers by other names",
        "mlp",
        (
            ("def all_reduce_mean(", "def mean_over_all_ranks("),
            ("mean = all_reduce_mean(", "mean = mean_over_all_ranks("),
        ),
    ),
    Variation(
        "a barrier before saving",
        "mlp",
        (("if dist.get_rank() == 0:\n    torch.save(", "dist.barrier()\nif dist.get_rank() == 0:\n    torch.save("),),
    ),
    Variation("other buckets", "mlp", (("DDP(model)", "DDP(model, bucket_cap_mb=1, gradient_as_bucket_view=True)"),)),
    Variation(
        "wrapped before the optimizer",
        "mlp",
        (("model = DDP(model)\n", ""), ("# The learning rate", "model = DDP(model)\n# The learning rate")),
    ),
    Variation(
        "times printed",
        "mlp",
        (
            (
                "    scheduler.step()\n",
                '    scheduler.step()\n    import time\n    print(f"took {time.perf_counter():.3f} s")\n',
            ),
        ),
    ),
    Variation(
        "messages on stderr",
        "mlp",
        (
            (
                "    scheduler.step()\n",
                '    scheduler.step()\n    import sys\n    print("next epoch", file=sys.stderr)\n',
            ),
        ),
    ),
    Variation(
        "the rank in a variable",
        "mlp",
        (
            ("generator = ", "rank = dist.get_rank()\ngenerator = "),
            ("rank=dist.get_rank())", "rank=rank)"),
            ("if dist.get_rank() == 0:", "if rank == 0:"),
        ),
    ),
    Variation(
        "gradients zeroed instead of dropped",
        "rnn_clipping",
        (("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)"),),
    ),
    Variation(
        "broadcast in another order",
        "accumulation",
        (("in dict(parameters).values()", "in list(dict(parameters).values())[::-1]"),),
    ),
    Variation(
        "a longer time limit",
        "accumulation",
        (
            (
                "dist.init_process_group(backend)",
                "import datetime\n        dist.init_process_group(backend, timeout=datetime.timedelta(hours=1))",
            ),
        ),
    ),
    Variation("weights seeded alike", "mlp", (("manual_seed(dist.get_rank())", "manual_seed(0)"),)),
    Variation("unused parameters looked for", "mlp", (("DDP(model)", "DDP(model, find_unused_parameters=True)"),)),
    Variation("averaged once more", "accumulation", ((HOOK, HOOK + HOOK),)),
    Variation(
        "mean written by hand",
        "mlp",
        (
            (
                "    mean = all_reduce_mean(total / len(loader))\n",
                "    mean = total / len(loader)\n    dist.all_reduce(mean)\n    mean /= dist.get_world_size()\n",
            ),
        ),
    ),
)
