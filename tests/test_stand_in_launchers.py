"""Drivers that start their ranks by the stand-ins for HorovodRunner, ``horovod.run`` and TorchDistributor."""

from __future__ import annotations

from pathlib import Path

import pytest
from survivors import MARK, marked

from migrator.helpers import helper_source
from migrator.parity.launch import Horovod, Launch, start

HOROVOD = """\
import atexit
import os
import time

import horovod
from sparkdl import HorovodRunner
from sparkdl.horovod import log_to_driver

atexit.register(print, "the driver ends")
base = 10.0  # goes along with the function


def train(factor, fails=False):
    import horovod.torch as hvd
    import torch

    hvd.init()
    if fails and hvd.rank() == 1:
        raise ValueError("a bad batch")
    if fails:
        time.sleep(60)
    total = hvd.allreduce(torch.tensor([base + factor * hvd.rank()]), op=hvd.Sum).item()
    if hvd.rank() == 0:
        log_to_driver("x" * 5000)
    return hvd.rank(), hvd.size(), hvd.local_rank(), total


print(HorovodRunner(np=-2).run(train, factor=1.0))
print(horovod.run(train, args=(2.0,), num_proc=3))
print(horovod.run(train, kwargs={"factor": 3.0}, num_proc=1))
start = time.monotonic()
try:
    HorovodRunner(np=2).run(train, factor=1.0, fails=True)
except RuntimeError as error:
    print("failed:", str(error).splitlines()[0], str(error).splitlines()[-1], time.monotonic() - start < 30)
try:
    horovod.run(lambda: os._exit(7), num_proc=2)
except RuntimeError as error:
    print("failed:", error)
print("RANK" in os.environ, "HOROVOD_RANK" in os.environ)
"""

SPARK = """\
import sys
from pathlib import Path

from pyspark.ml.torch.distributor import TorchDistributor


def train(factor):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.tensor([factor * (dist.get_rank() + 1)])
    dist.all_reduce(total)
    dist.destroy_process_group()
    return total.item()


if __name__ == "__main__":
    print(TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(train, 2.0))
    Path("script.py").write_text("import os, sys; open(f'rank{os.environ[\\"RANK\\"]}', 'w').write(sys.argv[1])")
    print(TorchDistributor(num_processes=2, use_gpu=False).run("script.py", 7))
    print(Path("rank0").read_text(), Path("rank1").read_text())
    Path("script.py").write_text("import os, time; os.environ['RANK'] == '1' and exit(3); time.sleep(60)")
    try:
        TorchDistributor(num_processes=2, use_gpu=False).run("script.py")
    except RuntimeError as error:
        print("failed:", error)
    print("horovod" in sys.modules)
"""


def run(source: str, folder: Path, horovod: Horovod) -> list[str]:
    """The lines of a driver, which must end well and leave nothing running."""
    (folder / "driver.py").write_text(source, "utf-8")
    lines: list[str] = []
    mark = f"{folder.name}.{horovod}"
    launch = Launch("driver.py", is_driver=True, horovod=horovod, folder=folder, limit=90, environment={MARK: mark})
    outcome = start(launch, None, lambda _, stream, line: lines.append(line))
    assert outcome.ended == "finished", lines
    assert marked(f"{MARK}={mark}") == []
    return lines


@pytest.mark.ranks
def test_horovod_runner_and_run(tmp_path: Path) -> None:
    lines = run(HOROVOD, tmp_path, "stand-in")
    assert [line.replace("Rank 1 ended", "Rank 0 ended") for line in lines if not line.startswith("x")] == [
        "(0, 2, 0, 21.0)",
        "[(0, 3, 0, 36.0), (1, 3, 1, 36.0), (2, 3, 2, 36.0)]",
        "[(0, 1, 0, 10.0)]",
        "failed: Rank 1 failed: ValueError: a bad batch True",
        "failed: Rank 0 ended with status 7 and no result.",
        "False False",
        "the driver ends",
    ]
    assert [len(line) for line in lines if line.startswith("x")] == [4000] * 3


@pytest.mark.ranks
def test_torch_distributor(tmp_path: Path) -> None:
    assert run(SPARK, tmp_path, "none") == [
        "6.0",
        "None",
        "7 7",
        "failed: Rank 1 ended with status 3 and no result.",
        "False",
    ]


ENDINGS = """\
import os
import time

import torch.distributed as dist
from pyspark.ml.torch.distributor import TorchDistributor

{helper}


def works(how):
    if how == "nothing":
        return how
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if how == "leaves" and rank == 1:
        dist.destroy_process_group()
        raise SystemExit
    if how == "fails" and rank == 1:
        raise ValueError("a bad batch")
    if how == "late" and rank == 0:
        time.sleep(1)
    dist.destroy_process_group()
    return rank


distributor = TorchDistributor(num_processes=2, local_mode=True, use_gpu=False)
for how in ("nothing", "late", "early", "leaves", "fails"):
    try:
        print(how, distributor.run(finish_together(works), how))
    except RuntimeError as error:
        print(how, str(error).splitlines()[-1])
print(TorchDistributor(num_processes=1, local_mode=True, use_gpu=False).run(finish_together(works), how="early"))
"""


@pytest.mark.ranks
def test_ranks_finish_together(tmp_path: Path) -> None:
    source = helper_source("finish_together")
    imports = "import sys\nfrom datetime import timedelta\nfrom typing import Callable\n"
    assert run(ENDINGS.format(helper=f"{imports}\n{source.text}"), tmp_path, "none") == [
        "nothing nothing",
        "late 0",
        "early 0",
        "leaves RuntimeError: the function was left by sys.exit",
        "fails ValueError: a bad batch",
        "0",
    ]
