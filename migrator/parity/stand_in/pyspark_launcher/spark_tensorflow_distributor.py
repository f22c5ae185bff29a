"""MirroredStrategyRunner without Spark: its workers are forks of the driver, on this machine."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from typing import Any

from pyspark.ml.torch.distributor import _launch


class MirroredStrategyRunner:
    """Runs a function on ``num_slots`` workers; GPUs are used as far as the program does."""

    def __init__(
        self,
        *,
        num_slots: int,
        local_mode: bool = False,
        use_gpu: bool = True,
        gpu_resource_name: str = "gpu",
        use_custom_strategy: bool = False,
    ) -> None:
        if num_slots < 1:
            raise ValueError(f"num_slots has to be a positive integer, not {num_slots}.")
        self.num_slots = num_slots
        self.use_custom_strategy = use_custom_strategy

    def run(self, train_fn: Callable[..., Any], **kwargs: Any) -> Any:
        """Call the function on every worker, as one that makes its own strategy, and return the result of the first."""
        if not self.use_custom_strategy:
            raise NotImplementedError("without Spark a function makes its own strategy: use_custom_strategy=True")
        addresses = _free_addresses(self.num_slots)

        def train() -> Any:
            task = {"type": "worker", "index": int(os.environ["RANK"])}
            os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
            return train_fn(**kwargs)

        return _launch.run_ranks(train, self.num_slots)[0]


def _free_addresses(count: int) -> list[str]:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    return addresses
