"""In the place of Horovod's extension in C++: checks requests, submits them, and keeps the handles."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch

from horovod.common.controller import NOT_INITIALIZED, RUNTIME, Controller, Entry
from horovod.common.negotiation import AVERAGE, SUM, Request
from horovod.torch._collectives import Tensors, TorchBackend

REDUCED = frozenset(f"torch.{name}Tensor" for name in ("Int", "Long", "Half", "Float", "Double"))
MOVED = REDUCED | {f"torch.{name}Tensor" for name in ("Byte", "Char", "Short")}
TYPES = {"allreduce": REDUCED, "reducescatter": REDUCED, "allgather": MOVED, "broadcast": MOVED, "alltoall": MOVED}
UNIFORM = "Tensors in list must be on same device."

backend = TorchBackend()


class Handles:
    """The numbers that stand for collectives under way, and those collectives."""

    def __init__(self) -> None:
        self._entries: dict[int, Sequence[Entry]] = {}
        self._last = 0
        self._lock = threading.Lock()

    def new(self) -> int:
        """The next number."""
        with self._lock:
            self._last += 1
            return self._last

    def keep(self, handle: int, entries: Sequence[Entry]) -> int:
        self._entries[handle] = entries
        return handle

    def is_done(self, handle: int) -> bool:
        return all(entry.is_done for entry in self._get(handle))

    def wait(self, handle: int) -> None:
        """Wait for all of it; raises RuntimeError if a part has failed."""
        entries = self._get(handle)
        for entry in entries:
            entry.done.wait()
        del self._entries[handle]
        for entry in entries:
            entry.wait()

    def reset(self) -> None:
        self._entries.clear()
        self._last = 0

    def _get(self, handle: int) -> Sequence[Entry]:
        if handle not in self._entries:
            raise ValueError(f"Handle {handle} was not created or has been cleared.")
        return self._entries[handle]


handles = Handles()


def supports(kind: str, tensor: torch.Tensor) -> bool:
    """Whether Horovod has this collective for this type of tensor."""
    return tensor.type().replace("torch.cuda.", "torch.") in TYPES[kind]


def allreduce(
    tensors: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    name: str | None,
    op: int,
    factors: tuple[float, float],
    process_set: int,
    grouped: bool = False,
) -> int:
    """Submit one tensor, or several that go together."""
    controller, handle = _controller(), handles.new()
    names = _names("allreduce", name, handle, len(tensors), grouped)
    kind = "ADASUM" if op == 2 else "ALLREDUCE"
    _check_devices(tensors)
    _check_member(controller, "Allreduce", process_set)
    requests = [
        _request(kind, one, tensor, process_set, op=op, prescale=factors[0], postscale=factors[1])
        for one, tensor in zip(names, tensors)
    ]
    return _submit(controller, handle, requests, [Tensors(*pair) for pair in zip(tensors, outputs)])


def allgather(
    tensors: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    name: str | None,
    process_set: int,
    grouped: bool = False,
) -> int:
    controller, handle = _controller(), handles.new()
    names = _names("allgather", name, handle, len(tensors), grouped)
    _check_devices(tensors)
    _check_member(controller, "Allgather", process_set)
    requests = [_request("ALLGATHER", one, tensor, process_set) for one, tensor in zip(names, tensors)]
    return _submit(controller, handle, requests, [Tensors(*pair) for pair in zip(tensors, outputs)])


def broadcast(tensor: torch.Tensor, output: torch.Tensor, root: int, name: str | None, process_set: int) -> int:
    controller = _controller()
    if controller.placement.rank == root and tensor.data_ptr() != output.data_ptr():
        output.data.copy_(tensor)
    handle = handles.new()
    members = _registered(controller, "Broadcast", process_set)
    if root not in members or controller.placement.rank not in members:
        raise ValueError(f"broadcast received invalid root rank {root} for provided process set")
    [full] = _names("broadcast", name, handle, 1, False)
    request = _request("BROADCAST", full, tensor, process_set, root=root)
    return _submit(controller, handle, [request], [Tensors(tensor, output)])


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor,
    output: torch.Tensor,
    received: torch.Tensor,
    name: str | None,
    process_set: int,
) -> int:
    controller, handle = _controller(), handles.new()
    members = _registered(controller, "Alltoall", process_set)
    if splits.dim() > 1:
        raise ValueError("alltoall expects a 1D splits tensor")
    if splits.dtype != torch.int32:
        raise ValueError("alltoall expects splits to contain 32-bit integer elements.")
    _check_member(controller, "Alltoall", process_set)
    [full] = _names("alltoall", name, handle, 1, False)
    rows = tensor.shape[0] if tensor.dim() else 0
    request = _request("ALLTOALL", full, tensor, process_set, splits=_splits(splits.tolist(), rows, len(members)))
    return _submit(controller, handle, [request], [Tensors(tensor, output, received)])


def reducescatter(
    tensors: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    name: str | None,
    op: int,
    process_set: int,
    factors: tuple[float, float],
    grouped: bool = False,
) -> int:
    controller, handle = _controller(), handles.new()
    names = _names("reducescatter", name, handle, len(tensors), grouped)
    _check_devices(tensors)
    if any(tensor.dim() == 0 for tensor in tensors):
        raise ValueError("Reducescatter does not support scalar inputs")
    members = controller.members.get(_number("Reducescatter", process_set), [])
    if controller.placement.rank not in members:
        raise ValueError(f"Invalid process set id for this rank: {process_set}")
    controller.check_running()
    if op not in (AVERAGE, SUM):
        raise RuntimeError("Reducescatter currently only supports AVERAGE and SUM.")
    prescale, postscale = factors[0], factors[1] / len(members) if op == AVERAGE else factors[1]
    requests = [
        _request("REDUCESCATTER", one, tensor, process_set, prescale=prescale, postscale=postscale)
        for one, tensor in zip(names, tensors)
    ]
    return _submit(controller, handle, requests, [Tensors(*pair) for pair in zip(tensors, outputs)])


def join(device: int) -> tuple[int, Entry]:
    """Submit that this rank has no more data."""
    controller, handle, entry = _controller(), handles.new(), Entry()
    if device >= 0:
        backend.device = torch.device("cuda", device)
    return _submit(controller, handle, [Request("JOIN", "join")], [entry]), entry


def barrier(process_set: int) -> int:
    controller, handle = _controller(), handles.new()
    _check_member(controller, "Barrier", process_set)
    return _submit(controller, handle, [Request("BARRIER", "barrier", process_set)], [Entry()])


def _controller() -> Controller:
    if RUNTIME.controller is None:
        raise RuntimeError(NOT_INITIALIZED)
    return RUNTIME.controller


def _names(kind: str, name: str | None, handle: int, count: int, grouped: bool) -> list[str]:
    prefix = f"grouped_{kind}" if grouped else kind
    base = f"{prefix}.{name}" if name else f"{prefix}.noname.{handle}"
    return [f"{base}_{i}of{count}" for i in range(1, count + 1)] if grouped else [base]


def _check_devices(tensors: Sequence[torch.Tensor]) -> None:
    if len({tensor.device for tensor in tensors}) > 1:
        raise RuntimeError(UNIFORM)


def _number(kind: str, process_set: int | None) -> int:
    if process_set is None:
        raise TypeError(f"{kind}: incompatible function arguments: a process set without a number is not registered.")
    return process_set


def _registered(controller: Controller, kind: str, process_set: int | None) -> list[int]:
    members = controller.members.get(_number(kind, process_set))
    if members is None:
        raise ValueError(f"{kind}: Process set provided does not exist, or has not been registered.")
    controller.check_running()
    return members


def _check_member(controller: Controller, kind: str, process_set: int) -> None:
    rank = controller.placement.rank
    if rank not in _registered(controller, kind, process_set):
        raise ValueError(f"{kind}: Rank {rank} is not a member of the provided process set.")


def _request(kind: str, name: str, tensor: torch.Tensor, process_set: int, **options: object) -> Request:
    dtype = str(tensor.dtype).replace("torch.", "")
    device = "GPU" if tensor.is_cuda else "CPU"
    return Request(kind, name, process_set, dtype, list(tensor.shape), device=device, **options)  # type: ignore[arg-type]


def _splits(splits: list[int], rows: int, size: int) -> list[int]:
    if len(splits) == size:
        if sum(splits) > rows:
            raise ValueError("Sum of splits entries is greater than the first dimension of tensor.")
        return splits
    if splits:
        raise ValueError("Number of entries in splits does not equal number of workers.")
    if rows % size:
        raise ValueError(
            "splits not provided, but first dimension of tensor is not an even multiple of the number of workers."
        )
    return [rows // size] * size


def _submit(controller: Controller, handle: int, requests: Sequence[Request], entries: Sequence[Entry]) -> int:
    controller.submit(requests, entries)
    return handles.keep(handle, entries)
