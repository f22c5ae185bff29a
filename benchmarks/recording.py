"""What recording costs a training step, as a ratio taken in one session on one machine, against its limit.

    python benchmarks/recording.py

Two Gloo ranks train a model of five million parameters under DDP, and record every second step, so that whatever else
the machine does disturbs steps of both kinds alike. Exit code 1 when a limit is missed. Medians are compared, of wall
time and of CPU time: ranks wait for one another, so a busy machine adds more to wall time.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

RANKS = 2
STEPS = 120
LIMIT = 1.3

PROGRAM = """
import statistics, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from migrator.parity import recorder

recording = recorder.install(sys.argv[1])
dist.init_process_group("gloo")
model = torch.nn.Sequential(
    torch.nn.Linear(1000, 1700), torch.nn.ReLU(), torch.nn.Linear(1700, 1800), torch.nn.ReLU(),
    torch.nn.Linear(1800, 120),
)
model = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = [], []
for number in range(int(sys.argv[2])):
    data, target = torch.randn(16, 1000), torch.randint(0, 120, (16,))
    recording.is_stopped = number % 2 == 1
    dist.barrier()
    cpu, wall = time.process_time(), time.perf_counter()
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(data), target).backward()
    optimizer.step()
    steps[number % 2].append((time.process_time() - cpu, time.perf_counter() - wall))
if dist.get_rank() == 0:
    print(sum(p.numel() for p in model.parameters()))
    for recorded_or_bare in steps:
        print(*map(statistics.median, zip(*recorded_or_bare[5:])))
dist.destroy_process_group()
"""


def main() -> int:
    """Measure, print the line; 1 when the limit is missed."""
    with tempfile.TemporaryDirectory() as scratch:
        elements, recorded, bare = run(Path(scratch))
        size = sum(path.stat().st_size for path in Path(scratch, "trace").iterdir()) / RANKS / (STEPS / 2)
    ratios = [with_it / without for with_it, without in zip(recorded, bare, strict=True)]
    for name, ratio, with_it, without in zip(("CPU time", "wall time"), ratios, recorded, bare, strict=True):
        verdict = "ok" if ratio <= LIMIT else "MISSED"
        times = f"{with_it * 1e3:.1f} ms / {without * 1e3:.1f} ms"
        print(f"{f'recorded step / bare step, {name}':58} {ratio:6.2f}  at most {LIMIT:.2f}  {verdict:6}  {times}")
    print(f"{elements[0]:.0f} parameters, {size:.0f} bytes of trace a step")
    return 0 if max(ratios) <= LIMIT else 1


def run(folder: Path) -> list[list[float]]:
    """The model's parameters, then CPU and wall seconds of recorded and of bare steps."""
    port = free_port()
    ranks = [start(folder, rank, port) for rank in range(RANKS)]
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("a rank failed")
    return [list(map(float, line.split())) for line in outputs[0].splitlines()]


def start(folder: Path, rank: int, port: int) -> subprocess.Popen[str]:
    """Start one rank as torchrun would."""
    environment = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", PROGRAM, str(folder / "trace"), str(STEPS)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
