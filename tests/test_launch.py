"""What ranks are told, where they meet, and what real ranks do with it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import textwrap
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from survivors import MARK, marked
from torch.distributed import TCPStore

from migrator.parity import launch as launching
from migrator.parity.devices import visible_gpus
from migrator.parity.drivers import starts_ranks
from migrator.parity.launch import Launch, LaunchError, Place, Recording, prepared, start
from migrator.parity.ports import held_port
from migrator.parity.real_horovod import RendezvousError, find_horovod, part_in, rendezvous
from migrator.parity.supervisor import Outcome

REAL_HOROVOD = os.environ.get("REAL_HOROVOD", "")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "visible_gpus", lambda environment: 0)


def environments(launch: Launch) -> tuple[dict[str, str], ...]:
    with prepared(launch) as job:
        return tuple(dict(environment) for environment in job.environments)


def of(prefixes: tuple[str, ...], environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(prefixes)}


def test_ranks_are_told_what_torchrun_tells() -> None:
    first, second = environments(Launch("train.py"))
    port = first["MASTER_PORT"]
    names = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "MASTER_", "HOROVOD_", "HVD_MIGRATE_")
    assert of(names, second) == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    assert first["RANK"] == first["LOCAL_RANK"] == "0"
    assert second["PYTHONPATH"].split(os.pathsep)[0] == str(launching.CHILD)
    assert str(launching.STAND_IN) not in second["PYTHONPATH"]


def test_originals_are_told_what_horovodrun_tells() -> None:
    _, second = environments(Launch("train.py", horovod="stand-in"))
    assert of(("HOROVOD_",), second) == {
        "HOROVOD_RANK": "1",
        "HOROVOD_SIZE": "2",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_HOSTNAME": "localhost",
    }
    assert second["RANK"] == "1"
    assert second["PYTHONPATH"].split(os.pathsep)[:2] == [str(launching.CHILD), str(launching.STAND_IN)]


def test_workers_of_tensorflow_are_told_of_one_another() -> None:
    first, second = (json.loads(rank["TF_CONFIG"]) for rank in environments(Launch("train.py")))
    assert [each["task"] for each in (first, second)] == [{"type": "worker", "index": index} for index in (0, 1)]
    assert first["cluster"] == second["cluster"]
    assert [address.partition(":")[0] for address in first["cluster"]["worker"]] == ["127.0.0.1"] * 2
    assert len(set(first["cluster"]["worker"])) == 2


def test_originals_are_told_of_no_workers_but_in_hybrids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", "{}")
    launch = Launch("train.py", horovod="stand-in")
    assert not any("TF_CONFIG" in rank for rank in environments(launch))
    assert not any("TF_CONFIG" in rank for rank in environments(Launch("train.py", is_driver=True)))
    hybrid = environments(replace(launch, is_hybrid=True))
    assert [json.loads(rank["TF_CONFIG"])["task"]["index"] for rank in hybrid] == [0, 1]
    assert hybrid[1]["HOROVOD_RANK"] == "1"


def test_what_another_launcher_said_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    said = ("RANK", "LOCAL_WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_RUN_ID", "HOROVOD_SIZE", "HOROVOD_GLOO_IFACE")
    said += ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "HVD_MIGRATE_TRACE", "MASTER_PORT")
    for name in said:
        monkeypatch.setenv(name, "8")
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "8")
    monkeypatch.setenv("RANKING", "8")
    (driver,) = environments(Launch("train.py", is_driver=True, horovod="stand-in"))
    assert not set(said) & set(driver)
    assert driver["HOROVOD_FUSION_THRESHOLD"] == driver["RANKING"] == "8"


def test_defaults_give_way_to_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", "/ours")
    (rank,) = environments(Launch("train.py", size=1))
    assert (rank["OMP_NUM_THREADS"], rank["PYTHONHASHSEED"]) == ("1", "0")
    assert rank["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert rank["PYTHONPATH"].endswith(f"{os.pathsep}/ours")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    (rank,) = environments(Launch("train.py", size=1, deterministic=False, environment={"PYTHONPATH": "/theirs"}))
    assert rank["OMP_NUM_THREADS"] == "4"
    assert rank["PYTHONPATH"].endswith(f"{os.pathsep}/theirs")
    assert not {"PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG"} & set(rank)


def test_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recording = Recording(Path("trace"), every=5, first=10, seed=0, lines=Path("lines.json"))
    (rank,) = environments(Launch("train.py", size=1, recording=recording))
    assert of(("HVD_MIGRATE_",), rank) == {
        "HVD_MIGRATE_TRACE": str(tmp_path / "trace"),
        "HVD_MIGRATE_EVERY": "5",
        "HVD_MIGRATE_FIRST": "10",
        "HVD_MIGRATE_SEED": "0",
        "HVD_MIGRATE_LINES": str(tmp_path / "lines.json"),
        "HVD_MIGRATE_DETERMINISTIC": "1",
    }
    (rank,) = environments(Launch("train.py", size=1, recording=Recording(Path("t")), deterministic=False))
    assert of(("HVD_MIGRATE_",), rank) == {"HVD_MIGRATE_TRACE": str(tmp_path / "t"), "HVD_MIGRATE_EVERY": "1"}


def test_command() -> None:
    for launch, expected in [
        (Launch("train.py", ("--epochs", "1"), python="py"), ("py", "train.py", "--epochs", "1")),
        (Launch("pack.train", is_module=True, python="py"), ("py", "-m", "pack.train")),
    ]:
        with prepared(launch) as job:
            assert job.command == expected


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert environments(Launch("train.py", device="cpu"))[0]["CUDA_VISIBLE_DEVICES"] == ""
    with pytest.raises(LaunchError, match="no GPU"):
        environments(Launch("train.py", device="cuda"))
    monkeypatch.setattr(launching, "visible_gpus", lambda environment: 2)
    two = environments(Launch("train.py"))
    assert [rank["LOCAL_RANK"] for rank in two] == ["0", "1"]
    assert two[0]["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "HVD_MIGRATE_BACKEND" not in two[0]


def test_ranks_that_share_gpus_look_like_ranks_of_several_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "visible_gpus", lambda environment: 2)
    ranks = environments(Launch("train.py", size=3, horovod="stand-in"))
    assert {rank["HVD_MIGRATE_BACKEND"] for rank in ranks} == {"gloo"}
    asked = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
    assert [[rank[name] for name in asked] for rank in ranks] == [list("0202"), list("1202"), list("0112")]
    asked = tuple(f"HOROVOD_{name}" for name in ("LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"))
    assert [[rank[name] for name in asked] for rank in ranks] == [list("0202"), list("1201"), list("0112")]


@pytest.mark.parametrize(
    ("visible", "expected"), [(None, 3), ("", 0), ("-1", 0), ("0", 1), ("0, 2", 2), ("1,-1,2", 1), ("0,1,2,3", 3)]
)
def test_visible_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, visible: str | None, expected: int) -> None:
    listing = tmp_path / "nvidia-smi"
    listing.write_text("#!/bin/sh\nfor n in 0 1 2; do echo \"GPU $n: H (UUID: x)\"; echo '  MIG 1g (UUID: y)'; done\n")
    listing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    if os.path.exists("/proc/driver/nvidia/gpus"):
        pytest.skip("has GPUs of its own")
    assert visible_gpus({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}) == expected


def test_the_store_of_rank_0_listens_on_a_port_that_is_held() -> None:
    patience = timedelta(seconds=30)
    with held_port() as port, held_port() as other:
        ours, theirs = (TCPStore("127.0.0.1", each, is_master=True, timeout=patience) for each in (port, other))
        ours.set("key", "ours")
        theirs.set("key", "theirs")
        assert TCPStore("127.0.0.1", port, is_master=False, timeout=patience).get("key") == b"ours"


@pytest.mark.parametrize("address", ["::", "127.0.0.1"])
def test_runs_one_after_another_can_all_listen(address: str) -> None:
    family, both = (socket.AF_INET6, True) if ":" in address else (socket.AF_INET, False)
    for _ in range(20):
        with (
            held_port() as port,
            socket.create_server((address, port), family=family, dualstack_ipv6=both) as server,
            socket.create_connection(("127.0.0.1", port)),
        ):
            server.accept()[0].close()


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is held elsewhere")
def test_a_held_port_is_given_to_nobody_else() -> None:
    with contextlib.ExitStack() as held:
        ports = [held.enter_context(held_port()) for _ in range(300)]
        assert len(set(ports)) == 300
        for address in ("127.0.0.1", "0.0.0.0"):
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((address, ports[0]))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from sparkdl import HorovodRunner\nHorovodRunner(np=2).run(train)", True),
        ("import sparkdl as s\nhr = s.HorovodRunner(np=-2)", True),
        ("def main():\n    from pyspark.ml.torch.distributor import TorchDistributor as T\n    T(2).run(f)", True),
        ("import pyspark.ml.torch.distributor\npyspark.ml.torch.distributor.TorchDistributor()", True),
        ("import horovod\nhorovod.run(train, np=2)", True),
        ("from horovod import run\nrun(train, np=2)", True),
        ("import horovod.spark\nhorovod.spark.run(train)", True),
        ("import horovod\nif __name__ == '__main__':\n    horovod.run(main, np=2)", True),
        ("from spark_tensorflow_distributor import MirroredStrategyRunner\nMirroredStrategyRunner(num_slots=2)", True),
        ("def run_on_workers(f): ...\nif __name__ == '__main__':\n    run_on_workers(main)", True),
        ("def run_on_workers(f): ...\nif args.num_proc:\n    run_on_workers(main)", False),
        ("import horovod\nif args.num_proc:\n    horovod.run(main, np=args.num_proc)\nelse:\n    main()", False),
        ("import horovod\nif args.alone:\n    main()\nelse:\n    horovod.run(main)", False),
        ("import horovod\nhorovod.run(main) if args.num_proc else main()", False),
        ("from sparkdl import HorovodRunner\nif args.num_proc:\n    HorovodRunner(np=args.num_proc).run(main)", True),
        ("from sparkdl import HorovodRunner", False),
        ("import horovod.torch as hvd\nhvd.init()\nmodel.run()", False),
        ("def run(): ...\nrun()\nfrom . import run as HorovodRunner\nHorovodRunner()", False),
        ("print 'python 2'", False),
        ("\0", False),
    ],
)
def test_programs_that_start_their_ranks_themselves(source: str, expected: bool) -> None:
    assert starts_ranks(source) is expected


HOROVOD = {
    "horovod/__init__.py": "__version__ = '0.99'\nprint('a greeting')",
    "horovod/torch/__init__.py": "",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_which_horovod_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_horovod("/no/such/python") is None
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    write(tmp_path, HOROVOD)
    assert find_horovod(sys.executable) == "0.99"
    assert find_horovod(sys.executable, "horovod.tensorflow") is None
    write(tmp_path, {"horovod/torch/__init__.py": "raise ImportError('built without PyTorch')"})
    assert find_horovod(sys.executable) is None


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("import horovod.torch as hvd", "horovod.torch"),
        ("import horovod.tensorflow.keras as hvd", "horovod.tensorflow"),
        ("from horovod import keras as hvd", "horovod.tensorflow"),
        ("import horovod.torch, tensorflow", "horovod.torch"),
        ("from training import main", "horovod.torch"),
    ],
)
def test_which_part_of_horovod_a_program_uses(source: str, part: str) -> None:
    assert part_in(source.encode()) == part


def test_a_rendezvous_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    write(tmp_path, HOROVOD | {"horovod/__init__.py": ""})
    with (
        pytest.raises(RendezvousError, match=r"ModuleNotFoundError: No module named 'horovod.runner'"),
        rendezvous(sys.executable, "localhost:2", 2),
    ):
        raise AssertionError


def run_ranks(folder: Path, source: str, **settings: object) -> tuple[Outcome, list[tuple[int, str]]]:
    program = folder / "program.py"
    program.write_text(textwrap.dedent(source))
    lines: list[tuple[int, str]] = []
    launch = Launch(str(program), folder=folder, limit=60, **settings)  # type: ignore[arg-type]
    outcome = start(launch, folder / "output", lambda rank, _, line: lines.append((rank, line)))
    return outcome, sorted(lines)


def test_the_stand_in_is_seen_by_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "STAND_IN", tmp_path / "stand_in")
    write(tmp_path / "stand_in", HOROVOD)
    outcome, lines = run_ranks(tmp_path, "import horovod; print(horovod.__version__)", horovod="stand-in")
    assert outcome.ended == "finished"
    assert [line for line in lines if line[1] != "a greeting"] == [(0, "0.99"), (1, "0.99")]


def test_a_driver_is_started_once(tmp_path: Path) -> None:
    outcome, lines = run_ranks(tmp_path, "import os; print('RANK' in os.environ)", is_driver=True, size=3)
    assert outcome.ended == "finished"
    assert lines == [(0, "False")]


DRIVER = """
from pyspark.ml.torch.distributor import TorchDistributor
{more}
def train(factor):
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.ones(1) * factor * (dist.get_rank() + 1)
    dist.all_reduce(total)
    return total.item()

print(TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(train, 2.0))
"""


@pytest.mark.ranks
@pytest.mark.parametrize("has_pyspark", [False, True])
def test_torch_distributor_needs_no_spark(tmp_path: Path, has_pyspark: bool) -> None:
    write(tmp_path / "spark" / "pyspark", {"__init__.py": "", "sql.py": "", "ml/__init__.py": ""})
    write(
        tmp_path / "spark" / "pyspark/ml", {"torch/__init__.py": "", "torch/distributor.py": "raise OSError('no JVM')"}
    )
    environment = {"PYTHONPATH": str(tmp_path / "spark")} if has_pyspark else {}
    source = DRIVER.format(more="import pyspark.sql" if has_pyspark else "")
    outcome, lines = run_ranks(tmp_path, source, is_driver=True, environment=environment)
    assert (outcome.reason, lines) == ("", [(0, "6.0")])


def test_drivers_of_real_horovod_have_the_spark_that_there_is() -> None:
    for horovod, expected in [("none", True), ("stand-in", True), ("real", False)]:
        (driver,) = environments(Launch("train.py", is_driver=True, horovod=horovod))  # type: ignore[arg-type]
        assert (str(launching.LAUNCHERS) in driver["PYTHONPATH"].split(os.pathsep)) is expected
    assert str(launching.LAUNCHERS) not in environments(Launch("train.py"))[0]["PYTHONPATH"]


REDUCE = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(5):
    total = torch.ones(1)
    dist.all_reduce(total)
    if step == 2 and rank == 0 and "dies" in sys.argv:
        raise ValueError("a bad batch")
    if step == 2 and rank == 0 and "leaves" in sys.argv:
        sys.exit()
print(total.item())
dist.destroy_process_group()
"""


@pytest.mark.ranks
def test_runs_side_by_side(tmp_path: Path) -> None:
    results: list[tuple[Outcome, list[tuple[int, str]]]] = []
    for name in "ab":
        (tmp_path / name).mkdir()
    threads = [threading.Thread(target=lambda n=n: results.append(run_ranks(tmp_path / n, REDUCE))) for n in "ab"]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(outcome.reason, lines) for outcome, lines in results] == [("", [(0, "2.0"), (1, "2.0")])] * 2


@pytest.mark.ranks
def test_a_rank_that_dies_in_training_is_named_not_those_that_lose_it(tmp_path: Path) -> None:
    outcome, _ = run_ranks(tmp_path, REDUCE, arguments=("dies",))
    assert outcome.first_failure == 0
    assert outcome.culprits[0].cause == "ValueError: a bad batch"


@pytest.mark.ranks
def test_ranks_that_a_driver_starts(tmp_path: Path) -> None:
    source = """
    import os, pathlib, subprocess, time
    if os.environ["RANK"] == "0":
        subprocess.Popen(["sleep", "60"], start_new_session=True)
        pathlib.Path("started").touch()
        time.sleep(60)
    while not os.path.exists("started"):
        time.sleep(0.01)
    raise ValueError("a bad batch")
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(source))
    arguments = ("--standalone", "--nproc-per-node", "2", "train.py")
    environment = {MARK: str(tmp_path)}
    launch = Launch("torch.distributed.run", arguments, is_module=True, is_driver=True, environment=environment)
    outcome = start(replace(launch, folder=tmp_path, limit=60))
    assert outcome.reason.endswith(": ValueError: a bad batch")
    assert not marked(f"{MARK}={tmp_path}")


@pytest.mark.ranks
def test_a_rank_that_runs_out_of_steps_is_named_beside_those_that_lose_it(tmp_path: Path) -> None:
    outcome, _ = run_ranks(tmp_path, REDUCE, arguments=("leaves",))
    assert outcome.ended == "failed"
    assert outcome.first_failure == 1
    assert "onnection" in outcome.reason
    assert "; rank 0 had ended well by then, after " in outcome.reason


@pytest.mark.ranks
@pytest.mark.skipif(not REAL_HOROVOD, reason="REAL_HOROVOD names no interpreter that has Horovod")
@pytest.mark.parametrize(("size", "slots"), [(1, 0), (2, 0), (3, 2)])
def test_ranks_of_real_horovod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, slots: int) -> None:
    monkeypatch.setattr(launching, "visible_gpus", lambda environment: slots)
    source = """
    import torch, horovod.torch as hvd
    hvd.init()
    total = hvd.allreduce(torch.ones(1), op=hvd.Sum)
    print(hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size(), total.item())
    """
    outcome, lines = run_ranks(tmp_path, source, size=size, python=REAL_HOROVOD, horovod="real")
    assert outcome.reason == ""
    places = [Place(rank, size, slots or size) for rank in range(size)]
    cross = {1: [1], 2: [1, 1], 3: [2, 1, 2]}[size]
    assert lines == [
        (place.rank, f"{place.local} {place.local_size} {place.host} {cross[place.rank]} {float(size)}")
        for place in places
    ]
    assert find_horovod(REAL_HOROVOD)
