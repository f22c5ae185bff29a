"""Horovod's collectives over private process groups: torch.distributed's default group is left to the program."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple, cast

import torch
import torch.distributed as dist

from horovod.common.controller import START_SECONDS, Entry, Store
from horovod.common.negotiation import AVERAGE, MAX, MIN, PRODUCT, SUM, Response
from horovod.common.placement import Placement

OPS = {
    AVERAGE: dist.ReduceOp.SUM,
    SUM: dist.ReduceOp.SUM,
    MIN: dist.ReduceOp.MIN,
    MAX: dist.ReduceOp.MAX,
    PRODUCT: dist.ReduceOp.PRODUCT,
}
DATA_TIMEOUT = timedelta(days=1)


class Tensors(Entry):
    """A tensor on its way; the result goes to ``output``, the numbers of rows received to ``received``."""

    def __init__(self, tensor: torch.Tensor, output: torch.Tensor, received: torch.Tensor | None = None) -> None:
        super().__init__()
        self.tensor = tensor
        self.output = output
        self.received = received
        self.event = None
        if tensor.is_cuda:
            self.event = torch.cuda.Event()
            self.event.record(torch.cuda.current_stream(tensor.device))


class Group(NamedTuple):
    """The members of a process set, and what joins them."""

    store: dist.Store | None
    rank: int
    size: int
    gloo: dist.ProcessGroup | None


class TorchBackend:
    """Moves tensors: by Gloo, or by NCCL between GPUs of which every rank has one."""

    def __init__(self) -> None:
        self._groups: dict[int, Group] = {}
        self._nccl: dict[int, dist.ProcessGroup] = {}
        self._stores: dict[tuple[int, str, str], dist.Store] = {}
        self._local_size = 1
        self.device = torch.device("cpu")

    def open_store(self, placement: Placement, run: int) -> Store:
        """The store of ``env://``, shared with others who use torch.distributed; it lasts as long as the process."""
        self._local_size = placement.local_size
        key = (os.getpid(), os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", ""))
        if key not in self._stores:
            waited = timedelta(seconds=START_SECONDS)
            found = dist.rendezvous("env://", placement.rank, placement.size, timeout=waited)
            self._stores[key] = next(iter(found))[0]
        return cast(Store, dist.PrefixStore(f"horovod.{run}", self._stores[key]))

    def open_group(self, store: Store | None, number: int, members: Sequence[int], rank: int) -> None:
        """Join a process set; all members do so in the same order."""
        own = None if store is None else dist.PrefixStore(str(number), cast(dist.Store, store))
        place = members.index(rank)
        gloo = None
        if own is not None and len(members) > 1:
            gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", own), place, len(members), DATA_TIMEOUT)
        self._groups[number] = Group(own, place, len(members), gloo)

    def close_group(self, number: int) -> None:
        """Leave a process set."""
        self._groups.pop(number, None)
        self._nccl.pop(number, None)

    def run(self, members: Sequence[int], response: Response, entries: Sequence[Entry | None]) -> None:
        """Carry out a response on all tensors of this rank."""
        tensors = [cast("Tensors | None", entry) for entry in entries]
        with torch.no_grad(), self._device(response, tensors):
            if response.kind == "ALLREDUCE":
                self._allreduce(response, tensors)
            elif tensors[0] is not None:
                one = {
                    "ALLGATHER": self._allgather,
                    "BROADCAST": self._broadcast,
                    "REDUCESCATTER": self._reducescatter,
                    "ALLTOALL": self._alltoall,
                }[response.kind]
                one(response, tensors[0], members)

    def _allreduce(self, response: Response, entries: Sequence[Tensors | None]) -> None:
        group = self._groups[response.process_set]
        inputs = [self._zeros(response, i) if e is None else flat(e.tensor) for i, e in enumerate(entries)]
        outputs = [inputs[i] if e is None else flat(e.output) for i, e in enumerate(entries)]
        buffer = torch.cat(inputs) if len(inputs) > 1 else outputs[0]
        if len(inputs) == 1 and inputs[0] is not buffer:
            buffer.copy_(inputs[0])
        factor = response.postscale / group.size if response.op == AVERAGE else response.postscale
        scale(buffer, response.prescale)
        self._reduce(response, buffer)
        scale(buffer, factor)
        if len(inputs) > 1:
            for output, part in zip(outputs, buffer.split([one.numel() for one in inputs])):
                output.copy_(part)

    def _reducescatter(self, response: Response, entry: Tensors, members: Sequence[int]) -> None:
        group = self._groups[response.process_set]
        rows, *tail = entry.tensor.shape
        buffer = flat(entry.tensor).clone()
        scale(buffer, response.prescale)
        self._reduce(response, buffer)
        lengths = [rows // group.size + (place < rows % group.size) for place in range(group.size)]
        start = sum(lengths[: group.rank]) * math.prod(tail)
        part = buffer[start : start + lengths[group.rank] * math.prod(tail)]
        scale(part, response.postscale)
        entry.output.resize_(lengths[group.rank], *tail)
        flat(entry.output).copy_(part)

    def _allgather(self, response: Response, entry: Tensors, members: Sequence[int]) -> None:
        group = self._groups[response.process_set]
        tail = list(response.shapes[0][1:])
        sizes = [length * math.prod(tail) for length in response.lengths]
        entry.output.resize_(sum(response.lengths), *tail)
        output, mine = flat(entry.output), flat(entry.tensor)
        if group.gloo is None:
            output.copy_(mine)
        elif max(sizes):
            longest = max(sizes)
            padded = mine.new_zeros(longest)
            padded[: mine.numel()] = mine
            gathered = mine.new_empty(longest * group.size)
            with self._sent(response, padded, gathered) as (process_group, sent, found):
                process_group._allgather_base(found, sent).wait()
            parts = [part[:size] for part, size in zip(gathered.split(longest), sizes)]
            torch.cat(parts, out=output)

    def _broadcast(self, response: Response, entry: Tensors, members: Sequence[int]) -> None:
        group = self._groups[response.process_set]
        root = list(members).index(response.root)
        buffer = flat(entry.tensor if root == group.rank else entry.output)
        if group.gloo is not None and buffer.numel():
            options = dist.BroadcastOptions()
            options.rootRank, options.rootTensor = root, 0
            with self._sent(response, buffer) as (process_group, sent):
                process_group.broadcast([sent], options).wait()

    def _alltoall(self, response: Response, entry: Tensors, members: Sequence[int]) -> None:
        group = self._groups[response.process_set]
        row = math.prod(entry.tensor.shape[1:])
        gives = list(response.splits[group.rank])
        gets = [splits[group.rank] for splits in response.splits]
        entry.output.resize_(sum(gets), *entry.tensor.shape[1:])
        output, mine = flat(entry.output), flat(entry.tensor)[: sum(gives) * row]
        if group.gloo is None:
            output.copy_(mine)
        elif any(map(sum, response.splits)) and row:
            with self._sent(response, output, mine) as (process_group, found, sent):
                width = row * mine.element_size()
                lengths = [get * width for get in gets], [give * width for give in gives]
                process_group.alltoall_base(found, sent, *lengths).wait()
        assert entry.received is not None
        entry.received.resize_(group.size).copy_(torch.tensor(gets, dtype=torch.int32))

    def _reduce(self, response: Response, buffer: torch.Tensor) -> None:
        if self._groups[response.process_set].gloo is not None and buffer.numel():
            options = dist.AllreduceOptions()
            options.reduceOp = OPS[response.op]
            with self._sent(response, buffer, as_bytes=False) as (process_group, sent):
                process_group.allreduce([sent], options).wait()

    def _zeros(self, response: Response, index: int) -> torch.Tensor:
        device = torch.device("cpu") if response.device == "CPU" else self.device
        return torch.zeros(math.prod(response.shapes[index]), dtype=getattr(torch, response.dtype), device=device)

    @contextlib.contextmanager
    def _sent(self, response: Response, *buffers: torch.Tensor, as_bytes: bool = True) -> Iterator[tuple]:  # type: ignore[type-arg]
        """The process group for these buffers, and the buffers as it takes them: on the CPU for Gloo."""
        process_group = self._process_group(response)
        is_copy = buffers[0].is_cuda and isinstance(process_group, dist.ProcessGroupGloo)
        used = [buffer.cpu() for buffer in buffers] if is_copy else list(buffers)
        yield (process_group, *(one.view(torch.uint8) if as_bytes else one for one in used))
        if is_copy:
            for buffer, one in zip(buffers, used):
                buffer.copy_(one)

    def _process_group(self, response: Response) -> dist.ProcessGroup:
        group = self._groups[response.process_set]
        assert group.gloo is not None
        if response.device == "CPU" or not has_gpu_for_each(self._local_size):
            return group.gloo
        if response.process_set not in self._nccl:
            store = dist.PrefixStore("nccl", group.store)
            self._nccl[response.process_set] = dist.ProcessGroupNCCL(store, group.rank, group.size)
        return self._nccl[response.process_set]

    @contextlib.contextmanager
    def _device(self, response: Response, entries: Sequence[Tensors | None]) -> Iterator[None]:
        """On a GPU, after what the program had queued when it asked; done when the GPU is."""
        if response.device == "CPU":
            yield
            return
        self.device = next((entry.tensor.device for entry in entries if entry is not None), self.device)
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream()
            for entry in entries:
                if entry is not None and entry.event is not None:
                    stream.wait_event(entry.event)
            yield
            stream.synchronize()


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as they lie in memory, hidden from autograd; so Horovod takes tensors, transposed ones too."""
    return tensor.data.as_strided((tensor.numel(),), (1,))


def scale(buffer: torch.Tensor, factor: float) -> None:
    """Multiply in place; integers go through doubles and are truncated."""
    if factor == 1.0:
        return
    if buffer.is_floating_point():
        buffer.mul_(factor)
    else:
        buffer.copy_(buffer.double().mul_(factor))


def has_gpu_for_each(local_size: int) -> bool:
    """Whether NCCL can be used: it takes one rank for each GPU."""
    forced = os.environ.get("HVD_MIGRATE_BACKEND") == "gloo"
    return not forced and dist.is_nccl_available() and torch.cuda.device_count() >= local_size
