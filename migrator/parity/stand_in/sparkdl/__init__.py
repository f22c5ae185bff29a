"""HorovodRunner without Spark: its ranks are forks of the driver, on this machine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

from horovod.runner.launch import run_ranks

__all__ = ["HorovodRunner"]
VERBOSITIES = ("all", "log_callback_only")


class HorovodRunner:
    """Runs a function on ``np`` ranks, or as many as ``-np``; 0 stands for all slots, here the cores."""

    def __init__(self, *, np: int, driver_log_verbosity: str = "log_callback_only") -> None:
        if driver_log_verbosity not in VERBOSITIES:
            raise ValueError(f"driver_log_verbosity must be one of {VERBOSITIES}, not {driver_log_verbosity!r}")
        self.num_processor = np
        self.driver_log_verbosity = driver_log_verbosity

    def run(self, main: Callable[..., Any], **kwargs: Any) -> Any:
        """Call ``main(**kwargs)`` on every rank; returns the result of rank 0."""
        if self.num_processor == 0:
            warnings.warn("Setting np=0 is deprecated: give the number of ranks.", DeprecationWarning, stacklevel=2)
        size = abs(self.num_processor) or os.cpu_count() or 1
        return run_ranks(lambda: main(**kwargs), size)[0]
