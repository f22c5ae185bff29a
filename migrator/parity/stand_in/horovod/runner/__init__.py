"""``horovod.run``: a function on several ranks of this machine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from horovod.runner import common as common
from horovod.runner import elastic as elastic
from horovod.runner import http as http
from horovod.runner import util as util
from horovod.runner.launch import run_ranks


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[int] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: int | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: int | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: Sequence[str] | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Any]:
    """Call ``func`` on ``num_proc`` ranks, all on this machine, and return their results."""
    old = {"np": np, "min_np": min_np, "max_np": max_np}
    new = {"np": "num_proc", "min_np": "min_num_proc", "max_np": "max_num_proc"}
    for name, value in old.items():
        if value is not None:
            warnings.warn(f"{name} is deprecated, use {new[name]} instead", DeprecationWarning, stacklevel=2)
    if hosts is not None and hostfile is not None:
        raise ValueError("Argument hosts and hostfile only allow one provided.")
    if use_gloo and use_mpi:
        raise ValueError("Argument use_gloo and use_mpi only allow one set True.")
    results = run_ranks(lambda: func(*args, **(kwargs or {})), num_proc if np is None else np)
    return results[: min_num_proc if min_np is None else min_np]
