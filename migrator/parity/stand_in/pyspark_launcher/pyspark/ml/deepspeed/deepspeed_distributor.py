"""DeepspeedTorchDistributor needs DeepSpeed's own launcher."""

from __future__ import annotations

from typing import Any, NoReturn


class DeepspeedTorchDistributor:
    """Says that it cannot be had."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "DeepspeedTorchDistributor runs with Spark and DeepSpeed only, not with the stand-in."
        )

    def run(self, train_object: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError
