"""Weights, optimizer state and objects from one rank to all."""

from __future__ import annotations

import io
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch.mpi_ops import allgather, broadcast_, broadcast_async_, rank, size, synchronize

try:
    import cloudpickle as _pickler
except ImportError:
    _pickler = pickle


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Overwrite tensors with the root's: a ``state_dict``, or a list of tensors or of pairs with names."""
    if isinstance(params, dict):
        pairs = sorted(params.items())
    elif isinstance(params, list):
        pairs = [one if isinstance(one, tuple) else (None, one) for one in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    for handle in [broadcast_async_(tensor, root_rank, name) for name, tensor in pairs]:
        synchronize(handle)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None
) -> None:
    """Give the root's options and state to all; an optimizer without state takes a step with zero gradients first."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    state_dict = optimizer.state_dict()
    if not state_dict["state"]:
        _take_zero_step(optimizer, model)
        state_dict = optimizer.state_dict()
    if not state_dict["state"]:
        return
    tensors: list[tuple[str, torch.Tensor]] = []
    scalars: dict[str, Any] = {}
    setters: dict[str, Callable[[Any], None]] = {}
    for key, value, setter in _values(optimizer, state_dict):
        if torch.is_tensor(value):
            tensors.append((key, value))
        else:
            scalars[key] = value
            setters[key] = setter
    broadcast_parameters(tensors, root_rank)
    for key, value in broadcast_object(scalars, root_rank).items():
        setters[key](value)


def _take_zero_step(optimizer: torch.optim.Optimizer, model: torch.nn.Module | None) -> None:
    from horovod.torch.optimizer import DistributedOptimizer

    sparse = _sparse_parameters(model)
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.requires_grad:
                is_sparse = isinstance(optimizer, torch.optim.SparseAdam) or (
                    isinstance(optimizer, torch.optim.SGD) and id(p) in sparse
                )
                p.grad = torch.zeros_like(p.data).to_sparse() if is_sparse else torch.zeros_like(p.data)
    if type(optimizer).__module__ == DistributedOptimizer.__module__:
        super(type(optimizer), optimizer).step()
    else:
        optimizer.step()


def _sparse_parameters(model: torch.nn.Module | None) -> set[int]:
    modules = [] if model is None else model.modules()
    sparse = [one for one in modules if isinstance(one, torch.nn.Embedding) and one.sparse]
    return {id(p) for one in sparse for p in one.parameters()}


def _values(
    optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]
) -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    """Every option and state with the name that it goes by, and how to set it."""
    occurrences: Counter[str] = Counter()
    for index, group in enumerate(state_dict["param_groups"]):
        for option, value in group.items():
            if option != "params":
                yield f"{option}.{index}", value, _setter(optimizer.param_groups[index], option)
        for number in group["params"]:
            state = state_dict["state"].get(number, {})
            for name, value in state.items():
                occurrences[name] += 1
                yield f"{name}.{occurrences[name]}", value, _setter(state, name)


def _setter(owner: dict[str, Any], key: str) -> Callable[[Any], None]:
    def set_value(value: Any) -> None:
        owner[key] = value

    return set_value


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Return the root's object on every rank."""
    name = type(obj).__name__ if name is None else name
    is_root = rank() == root_rank
    data = _to_bytes(obj) if is_root else torch.ByteTensor(0)
    length = torch.IntTensor([data.shape[0]])
    broadcast_(length, root_rank, f"{name}.sz", process_set)
    if not is_root:
        data = torch.ByteTensor(int(length))
    broadcast_(data, root_rank, f"{name}.t", process_set)
    return obj if is_root else _from_bytes(data)


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Return the objects of all ranks, in their order."""
    name = type(obj).__name__ if name is None else name
    data = _to_bytes(obj)
    lengths = allgather(torch.IntTensor([data.shape[0]]), name=f"{name}.sz").tolist()
    gathered = allgather(data, name=f"{name}.t")
    assert len(lengths) == size()
    return [_from_bytes(part) for part in gathered.split(lengths)]


def _to_bytes(obj: Any) -> torch.Tensor:
    stream = io.BytesIO()
    _pickler.dump(obj, stream)
    return torch.frombuffer(bytearray(stream.getvalue()), dtype=torch.uint8)


def _from_bytes(data: torch.Tensor) -> Any:
    return pickle.loads(data.numpy().tobytes())
