"""A program and how it is to be run, made into the job of its ranks: commands, environments, and where they meet."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from migrator.parity.devices import visible_gpus
from migrator.parity.ports import held_port, held_ports
from migrator.parity.real_horovod import CHILD, rendezvous
from migrator.parity.supervisor import Job, Outcome, Show, run

HERE = Path(__file__).parent
STAND_IN = HERE / "stand_in"
LAUNCHERS = STAND_IN / "pyspark_launcher"

Horovod = Literal["real", "stand-in", "none"]
Device = Literal["auto", "cpu", "cuda"]

# What a launcher around us has told us, and is no news of the ranks that we start.
_INHERITED = re.compile(
    r"(LOCAL_)?RANK|(LOCAL_)?WORLD_SIZE|GROUP_(RANK|WORLD_SIZE)|ROLE_\w+|MASTER_(ADDR|PORT)|TORCHELASTIC_\w+"
    r"|HOROVOD_((LOCAL_|CROSS_)?(RANK|SIZE)|CONTROLLER|CPU_OPERATIONS|GLOO_\w+|HOSTNAME|ELASTIC)"
    r"|TF_CONFIG|OMPI_\w+|PMIX?_\w+|SLURM_(NTASKS|NPROCS|PROCID|LOCALID|TASKS_PER_NODE)|HVD_MIGRATE_\w+"
)


class LaunchError(Exception):
    """A program cannot be started as asked."""


@dataclass(frozen=True)
class Recording:
    """What the recorder is asked for: a trace in ``folder`` of every so many steps, of the first ones, under a seed.

    ``lines`` is a JSON file with the absolute paths of the files whose executed lines are recorded.
    """

    folder: Path
    every: int = 1
    first: int | None = None
    seed: int | None = None
    lines: Path | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The environment by which a rank's recorder knows."""
        asked = {"EVERY": self.every, "FIRST": self.first, "SEED": self.seed}
        paths = {"TRACE": self.folder.absolute(), "LINES": self.lines and self.lines.absolute()}
        return {f"HVD_MIGRATE_{name}": str(value) for name, value in {**asked, **paths}.items() if value is not None}


@dataclass(frozen=True)
class Launch:
    """A program with its arguments, and how it is to be run.

    ``program`` is a path, relative to ``folder`` in which it runs, or with ``is_module`` the name of a module. One with
    ``is_driver`` starts its ranks itself, one with ``is_hybrid`` uses Horovod and what replaces it side by side.
    With ``on_spark`` pyspark starts the ranks of one that uses TorchDistributor, and not what stands in for it.
    ``environment`` is added to that of this process.
    """

    program: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False
    is_driver: bool = False
    is_hybrid: bool = False
    on_spark: bool = False
    size: int = 2
    python: str = sys.executable
    horovod: Horovod = "none"
    device: Device = "auto"
    deterministic: bool = True
    recording: Recording | None = None
    folder: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=dict)
    limit: float = math.inf
    grace: float = 3.0


@dataclass(frozen=True)
class Place:
    """A rank's place among ranks and hosts."""

    rank: int
    size: int
    slots: int

    @property
    def local(self) -> int:
        """The rank on its host."""
        return self.rank % self.slots

    @property
    def local_size(self) -> int:
        """The ranks of its host."""
        return min(self.slots, self.size - self.host * self.slots)

    @property
    def host(self) -> int:
        """The number of its host."""
        return self.rank // self.slots

    @property
    def hosts(self) -> int:
        """The number of hosts."""
        return math.ceil(self.size / self.slots)

    @property
    def host_name(self) -> str:
        """What Horovod knows its host as."""
        return "localhost" if self.hosts == 1 else f"localhost{self.host}"


def start(launch: Launch, output: Path | None = None, show: Show | None = None) -> Outcome:
    """Run a program to its end; what its ranks write goes into files of ``output`` and, line by line, to ``show``."""
    with prepared(launch, output) as job:
        return run(job, show)


@contextlib.contextmanager
def prepared(launch: Launch, output: Path | None = None) -> Iterator[Job]:
    """The job of a program; what its ranks need to meet is there as long as the context is."""
    shared = _shared(launch)
    gpus = 0 if launch.device == "cpu" else visible_gpus(shared)
    if launch.device == "cuda" and not gpus:
        raise LaunchError("no GPU was found")
    if 0 < gpus < launch.size:
        shared["HVD_MIGRATE_BACKEND"] = "gloo"  # NCCL refuses two ranks on one GPU
    places = [Place(rank, launch.size, gpus or launch.size) for rank in range(launch.size)]
    with held_port() as port, _horovod(launch, places) as horovod, _workers(launch) as workers:
        ranks = [
            _variables(place, port, launch.horovod) | horovod | worker
            for place, worker in zip(places, workers, strict=True)
        ]
        ranks = [{}] if launch.is_driver else ranks
        environments = tuple(shared | rank for rank in ranks)
        yield Job(_command(launch), environments, launch.folder, output, launch.limit, launch.grace)


def _command(launch: Launch) -> tuple[str, ...]:
    return (launch.python, *(["-m"] if launch.is_module else []), launch.program, *launch.arguments)


def _shared(launch: Launch) -> dict[str, str]:
    """The environment that all ranks have in common."""
    environment = {name: value for name, value in os.environ.items() if not _INHERITED.fullmatch(name)}
    environment |= launch.environment
    if launch.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    packages = [CHILD, *_stand_ins(launch), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(map(str, packages))
    recording = launch.recording.variables if launch.recording else {}
    if launch.recording and launch.deterministic:
        recording["HVD_MIGRATE_DETERMINISTIC"] = "1"
    return _defaults(launch.deterministic) | environment | recording


def _stand_ins(launch: Launch) -> Iterator[Path]:
    """What a program sees besides what is installed: a TorchDistributor without Spark, unless Horovod's own is used."""
    if launch.horovod == "stand-in":
        yield STAND_IN
    if launch.is_driver and launch.horovod != "real" and not launch.on_spark:
        yield LAUNCHERS


def _defaults(deterministic: bool) -> dict[str, str]:
    """What ranks are given unless the user set it."""
    variables = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "4"}
    variables |= {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    if deterministic:
        variables |= {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONHASHSEED": "0"}
    if "lo" in (name for _, name in socket.if_nameindex()):
        variables["GLOO_SOCKET_IFNAME"] = "lo"
    return variables


def _variables(place: Place, port: int, horovod: Horovod) -> dict[str, str]:
    """What torchrun tells a rank, and for an original what horovodrun does."""
    values: dict[str, object] = {
        "RANK": place.rank,
        "WORLD_SIZE": place.size,
        "LOCAL_RANK": place.local,
        "LOCAL_WORLD_SIZE": place.local_size,
        "GROUP_RANK": place.host,
        "GROUP_WORLD_SIZE": place.hosts,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    if horovod != "none":
        values |= {
            "HOROVOD_RANK": place.rank,
            "HOROVOD_SIZE": place.size,
            "HOROVOD_LOCAL_RANK": place.local,
            "HOROVOD_LOCAL_SIZE": place.local_size,
            "HOROVOD_CROSS_RANK": place.host,
            "HOROVOD_CROSS_SIZE": len(range(place.local, place.size, place.slots)),
            "HOROVOD_HOSTNAME": place.host_name,
        }
    return {name: str(value) for name, value in values.items()}


@contextlib.contextmanager
def _workers(launch: Launch) -> Iterator[list[dict[str, str]]]:
    """What TensorFlow's strategies are told about the workers, each with a port of its own; originals know of none."""
    if launch.is_driver or not (launch.is_hybrid or launch.horovod == "none"):
        yield [{} for _ in range(launch.size)]
        return
    with held_ports(launch.size) as ports:
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        tasks = [{"type": "worker", "index": index} for index in range(launch.size)]
        yield [{"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})} for task in tasks]


@contextlib.contextmanager
def _horovod(launch: Launch, places: list[Place]) -> Iterator[dict[str, str]]:
    """Where the ranks of real Horovod meet, and how they talk."""
    if launch.horovod != "real" or launch.is_driver:
        yield {}
        return
    hosts = {place.host_name: place.local_size for place in places}
    named = ",".join(f"{name}:{ranks}" for name, ranks in hosts.items())
    with rendezvous(launch.python, named, launch.size) as port:
        yield {
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_IFACE": "lo",
        }
