"""TorchDistributor without Spark: its ranks are forks of the driver, on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

LAUNCHER = Path(__file__).resolve().parents[4] / "horovod" / "runner" / "launch.py"


def _load(path: Path) -> ModuleType:
    """The launcher alone: a migrated program must not find Horovod beside it."""
    spec = spec_from_file_location("hvd_migrate_launch", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_launch = _load(LAUNCHER)


class TorchDistributor:
    """Runs a function or a script on ``num_processes`` ranks; GPUs are used as far as the program does."""

    def __init__(
        self,
        num_processes: int = 1,
        local_mode: bool = True,
        use_gpu: bool = True,
        _ssl_conf: str = "pytorch.spark.distributor.ignoreSsl",
    ) -> None:
        if num_processes < 1:
            raise ValueError(f"num_processes has to be a positive integer, not {num_processes}.")
        self.num_processes = num_processes
        self.local_mode = local_mode
        self.use_gpu = use_gpu

    def run(self, train_object: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Any:
        """Call the function on every rank and return the result of rank 0, or run the script and return None.

        Other ranks may leave the function by ``sys.exit()``.
        """
        if isinstance(train_object, str):
            command = [sys.executable, train_object, *map(str, args)]
            return _launch.run_ranks(lambda: os.execv(sys.executable, command), self.num_processes, needs_result=False)[
                0
            ]

        def train() -> Any:
            try:
                return train_object(*args, **kwargs)
            except SystemExit as left:
                if left.code or os.environ["RANK"] == "0":
                    raise
                return None

        return _launch.run_ranks(train, self.num_processes)[0]
