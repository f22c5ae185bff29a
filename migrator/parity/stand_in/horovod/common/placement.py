"""Where this process stands among the ranks, as the launcher says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple


class Variables(NamedTuple):
    """The names under which one kind of launcher exports the place of a rank."""

    rank: str
    size: str
    local_rank: str
    local_size: str
    cross_rank: str
    cross_size: str


LAUNCHERS = (
    Variables("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    Variables(
        "HOROVOD_RANK",
        "HOROVOD_SIZE",
        "HOROVOD_LOCAL_RANK",
        "HOROVOD_LOCAL_SIZE",
        "HOROVOD_CROSS_RANK",
        "HOROVOD_CROSS_SIZE",
    ),
    Variables(
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "",
        "",
    ),
)


@dataclass(frozen=True)
class Placement:
    """The rank of this process, and the number of ranks: of all, on its host, and of hosts."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    cross_rank: int = 0
    cross_size: int = 1


def find_placement() -> Placement:
    """Read the variables of the first launcher that set a rank; without one, this process is alone."""
    names = next((names for names in LAUNCHERS if names.rank in os.environ), None)
    if names is None:
        return Placement()
    rank, size = int(os.environ[names.rank]), int(os.environ[names.size])
    local_size = int(os.environ.get(names.local_size, size))
    return Placement(
        rank,
        size,
        int(os.environ.get(names.local_rank, rank % local_size)),
        local_size,
        int(os.environ.get(names.cross_rank, rank // local_size)),
        int(os.environ.get(names.cross_size, -(-size // local_size))),
    )
