"""The state of a training in PyTorch: models, optimizers, samplers and plain values."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

from horovod.common.elastic import ObjectState
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from horovod.torch.mpi_ops import rank


class StateHandler:
    """Saves, restores and synchronizes one object that has a ``state_dict``."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._saved)

    def sync(self) -> None:
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)


class OptimizerStateHandler(StateHandler):
    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)


class SamplerStateHandler(StateHandler):
    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))


Registry = Sequence[tuple[type, type[StateHandler]]]


class _Handlers:
    registry: Registry = (
        (torch.nn.Module, ModelStateHandler),
        (torch.optim.Optimizer, OptimizerStateHandler),
        (ElasticSampler, SamplerStateHandler),
    )


def get_handler_registry() -> Registry:
    return _Handlers.registry


def set_handler_registry(registry: Registry) -> None:
    _Handlers.registry = registry


class TorchState(ObjectState):
    """Keeps what it is given as attributes, and can go back to the last commit."""

    def __init__(
        self, model: torch.nn.Module | None = None, optimizer: torch.optim.Optimizer | None = None, **kwargs: Any
    ) -> None:
        given = {**kwargs, "model": model, "optimizer": optimizer}
        self._handlers = {name: _handler(value) for name, value in given.items() if _handler_type(value)}
        for name, handler in self._handlers.items():
            setattr(self, name, handler.value)
        plain = {name: value for name, value in given.items() if name not in self._handlers}
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **plain)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name) and name in self._handlers:
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)


def _handler_type(value: Any) -> type[StateHandler] | None:
    return next((handler for kind, handler in _Handlers.registry if isinstance(value, kind)), None)


def _handler(value: Any) -> StateHandler:
    found = _handler_type(value)
    assert found is not None
    return found(value)
