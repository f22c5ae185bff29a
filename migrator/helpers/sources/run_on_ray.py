from typing import Any, Callable

import torch.distributed as dist
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer
from ray.util.queue import Queue


def run_on_ray(function: Callable, scaling_config: ScalingConfig, args: Any = None, kwargs: Any = None) -> list:
    """Run ``function`` on the workers of Ray Train and return their results, in the order of ranks."""
    queue = Queue()

    def train() -> None:
        queue.put((dist.get_rank(), function(*(args or ()), **(kwargs or {}))))

    TorchTrainer(train, scaling_config=scaling_config).fit()
    results = dict(queue.get() for _ in range(queue.qsize()))
    queue.shutdown()
    return [results[rank] for rank in sorted(results)]
