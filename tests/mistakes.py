"""Migrated programs with a mistake in them, and others that differ in nothing that matters.

Each is a program of ``parity_programs``, migrated, with pieces of text replaced. ``blame`` is text of the edit that
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
    Variation(
        "gradients summed", "accumulation", (("        flat /= dist.get_world_size()\n", ""),), "register_step_pre_hook"
    ),
    Variation(
        "weights not broadcast",
        "accumulation",
        (("\nbroadcast_parameters(model.state_dict())\n", "\n"),),
        "hvd.broadcast_parameters",
    ),
    Variation(
        "weights of the wrong rank",
        "accumulation",
        (("(model.state_dict())", "(model.state_dict(), 1)"),),
        "hvd.broadcast_parameters",
    ),
    Variation("no set_epoch", "mlp", (("    sampler.set_epoch(epoch)\n", ""),), "sampler.set_epoch"),
    Variation(
        "learning rate scaled twice",
        "mlp",
        (("0.05 * dist.get_world_size()", "0.05 * dist.get_world_size() ** 2"),),
        "lr=0.05",
    ),
    Variation("learning rate not scaled", "mlp", (("0.05 * dist.get_world_size()", "0.05"),), "lr=0.05"),
    Variation(
        "a model left out of the reduction",
        "two_optimizers",
        ((f"judge_{HOOK}", ""),),
        "judge_optimizer = hvd.DistributedOptimizer",
    ),
    Variation(
        "a layer left out of the reduction",
        "unused_parameters",
        ((' for p in group["params"] if p.requires_grad)', ' for p in group["params"][1:] if p.requires_grad)'),),
        "register_step_pre_hook",
    ),
    Variation(
        "accumulated gradients divided",
        "accumulation",
        (("flat /= dist.get_world_size()", "flat /= 2 * dist.get_world_size()"),),
        "register_step_pre_hook",
    ),
    Variation(
        "clipping before averaging",
        "rnn_clipping",
        (
            ("    average_gradients(optimizer)\n", ""),
            (CLIP, f"{CLIP}    average_gradients(optimizer)\n"),
        ),
        "optimizer.synchronize()",
        "optimizer",
    ),
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
        "scaler.unscale_(optimizer)",
    ),
    Variation(
        "metric reduced on one rank",
        "mlp",
        (
            (
                "    mean = all_reduce_mean(total / len(loader))\n    if dist.get_rank() == 0:\n",
                "    if dist.get_rank() == 0:\n        mean = all_reduce_mean(total / len(loader))\n",
            ),
        ),
        "hvd.allreduce",
    ),
    Variation(
        "metric not reduced",
        "mlp",
        (("mean = all_reduce_mean(total / len(loader))", "mean = total / len(loader)"),),
        "hvd.allreduce",
    ),
    Variation(
        "metric summed",
        "mlp",
        (("mean = all_reduce_mean(total / len(loader))", "mean = total / len(loader)\n    dist.all_reduce(mean)"),),
        "hvd.allreduce",
    ),
    Variation(
        "count averaged",
        "custom_collectives",
        (("dist.all_reduce(result, op)\n", "dist.all_reduce(result, op)\n    result //= dist.get_world_size()\n"),),
        "op=hvd.Sum",
    ),
    Variation(
        "largest of the others", "custom_collectives", (("dist.ReduceOp.MAX", "dist.ReduceOp.MIN"),), "op=hvd.Max"
    ),
    Variation(
        "gradients of one rank",
        "custom_collectives",
        (("        all_reduce_mean_(parameter.grad)", "        dist.broadcast(parameter.grad, 0)"),),
        "hvd.allreduce_",
    ),
    Variation(
        "weights saved before the broadcast are loaded after it",
        "resumed_checkpoint",
        (("\nbroadcast_parameters(model.state_dict())\nbroadcast_optimizer_state", "\nbroadcast_optimizer_state"),),
        "hvd.broadcast_parameters",
    ),
    Variation(
        "optimizer state not broadcast",
        "resumed_checkpoint",
        (("\nbroadcast_optimizer_state(optimizer)\n", "\n"),),
        "hvd.broadcast_optimizer_state",
    ),
    Variation(
        "keys of the wrapper in the checkpoint",
        "mlp",
        (("model.module.state_dict()", "model.state_dict()"),),
        "torch.save",
    ),
    Variation(
        "every rank saves",
        "mlp",
        (("if dist.get_rank() == 0:\n    torch.save(", "if True:\n    torch.save("),),
        "hvd.rank() == 0",
    ),
    Variation(
        "forward around the wrapper",
        "mlp",
        (("F.cross_entropy(model(x), y)", "F.cross_entropy(model.module(x), y)"),),
        "F.cross_entropy",
    ),
    Variation(
        "loss divided by the world size",
        "mlp",
        (("F.cross_entropy(model(x), y)", "F.cross_entropy(model(x), y) / dist.get_world_size()"),),
        "F.cross_entropy",
    ),
    Variation("every rank reads the same data", "mlp", (("rank=dist.get_rank())", "rank=0)"),), "DistributedSampler"),
    Variation(
        "every rank reads all data",
        "mlp",
        (("num_replicas=dist.get_world_size(), rank=dist.get_rank()", "num_replicas=1, rank=0"),),
        "DistributedSampler",
    ),
    Variation(
        "batch divided among the ranks",
        "mlp",
        (("batch_size=8", "batch_size=8 // dist.get_world_size()"),),
        "batch_size=8",
    ),
    Variation(
        "unused parameters skipped",
        "unused_parameters",
        (
            (
                HOOK,
                "model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)\n",
            ),
        ),
        "hvd.DistributedOptimizer",
    ),
    Variation("ranks not joined", "uneven_join", (("\njoin(optimizer)\n", "\n"),), "hvd.join"),
    Variation(
        "gradients halved in precision",
        "rnn_clipping",
        (
            (
                "        dist.all_reduce(flat)\n",
                "        flat = flat.half()\n        dist.all_reduce(flat)\n        flat = flat.float()\n",
            ),
        ),
        "optimizer.synchronize()",
        "optimizer",
    ),
    Variation(
        "reduced after the step",
        "two_optimizers",
        ((f"maker_{HOOK}", "maker_optimizer.register_step_post_hook(average_gradients)\n"),),
        "maker_optimizer = hvd.DistributedOptimizer",
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
)
