"""Training that goes on from the last commit when a collective fails."""

from collections.abc import Callable as _Callable
from typing import Any as _Any

from horovod.common.elastic import run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState
from horovod.torch.mpi_ops import init, shutdown

__all__ = ["ElasticSampler", "TorchState", "run"]


def run(func: _Callable[..., _Any]) -> _Callable[..., _Any]:
    """Make a function of a state, which is synchronized first, and run again after a failure."""
    return run_fn(func, _reset)


def _reset() -> None:
    shutdown()
    init()
