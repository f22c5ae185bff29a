"""Horovod's collectives on arrays of NumPy, without TensorFlow's strategies, which migrated programs use."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from horovod.common.controller import Entry, Store
from horovod.common.negotiation import AVERAGE, MAX, MIN, PRODUCT, SUM, Response
from horovod.common.placement import Placement
from horovod.tensorflow._transport import Combine, Prefixed, SharedValues, Star

OPS = {AVERAGE: np.add, SUM: np.add, MIN: np.minimum, MAX: np.maximum, PRODUCT: np.multiply}


class Array(Entry):
    """An array on its way; afterwards its result, and the numbers of rows received from each rank."""

    def __init__(self, value: np.ndarray) -> None:
        super().__init__()
        self.value = value
        self.result = value
        self.received = np.empty(0, np.int32)


class Group(NamedTuple):
    """A process set: this rank's place in it, and what joins it with the others."""

    place: int
    star: Star | None


class ArrayBackend:
    """Moves arrays through sockets."""

    def __init__(self) -> None:
        self._groups: dict[int, Group] = {}
        self._values: dict[tuple[int, str, str], SharedValues] = {}

    def open_store(self, placement: Placement, run: int) -> Store:
        """The values that ranks share; they last as long as the process."""
        key = (os.getpid(), os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", ""))
        if key not in self._values:
            self._values[key] = SharedValues(placement.rank)
        return Prefixed(self._values[key], f"horovod.{run}")

    def open_group(self, store: Store | None, number: int, members: Sequence[int], rank: int) -> None:
        """Join a process set; all members do so in the same order."""
        place = members.index(rank)
        star = None if store is None else Star(Prefixed(store, str(number)), place, len(members))
        self._groups[number] = Group(place, star)

    def close_group(self, number: int) -> None:
        """Leave a process set."""
        group = self._groups.pop(number, None)
        if group is not None and group.star is not None:
            group.star.close()

    def run(self, members: Sequence[int], response: Response, entries: Sequence[Entry | None]) -> None:
        """Carry out a response on all arrays of this rank."""
        arrays = [cast("Array | None", entry) for entry in entries]
        if response.kind == "ALLREDUCE":
            self._allreduce(members, response, arrays)
        elif arrays[0] is not None:
            one = {
                "ALLGATHER": self._allgather,
                "BROADCAST": self._broadcast,
                "REDUCESCATTER": self._reducescatter,
                "ALLTOALL": self._alltoall,
            }[response.kind]
            one(members, response, arrays[0])

    def _allreduce(self, members: Sequence[int], response: Response, entries: Sequence[Array | None]) -> None:
        dtype = np.dtype(response.dtype)
        zeros = [np.zeros(math.prod(shape), dtype) for shape in response.shapes]
        parts = [zero if entry is None else entry.value.reshape(-1) for zero, entry in zip(zeros, entries)]
        buffer = scaled(np.concatenate(parts), response.prescale)
        total = self._exchange(response, buffer, lambda all_of: [reduced(response.op, dtype, all_of)] * len(members))
        factor = response.postscale / len(members) if response.op == AVERAGE else response.postscale
        total = scaled(total.view(dtype), factor)
        ends = np.cumsum([part.size for part in parts])
        for entry, part in zip(entries, np.split(total, ends[:-1])):
            if entry is not None:
                entry.result = part.reshape(entry.value.shape)

    def _reducescatter(self, members: Sequence[int], response: Response, entry: Array) -> None:
        rows, *tail = entry.value.shape
        size, width = len(members), math.prod(tail) * entry.value.itemsize
        lengths = [rows // size + (place < rows % size) for place in range(size)]
        buffer = scaled(entry.value.reshape(-1), response.prescale)

        def combine(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
            return np.split(reduced(SUM, entry.value.dtype, parts), np.cumsum(lengths)[:-1] * width)

        mine = self._exchange(response, buffer, combine).view(entry.value.dtype)
        entry.result = scaled(mine, response.postscale).reshape(-1, *tail) if mine.size else mine.reshape(0, *tail)

    def _allgather(self, members: Sequence[int], response: Response, entry: Array) -> None:
        found = self._exchange(response, entry.value, lambda parts: [np.concatenate(parts)] * len(members))
        entry.result = found.view(entry.value.dtype).reshape(sum(response.lengths), *entry.value.shape[1:])

    def _broadcast(self, members: Sequence[int], response: Response, entry: Array) -> None:
        root = list(members).index(response.root)
        found = self._exchange(response, entry.value, lambda parts: [parts[root]] * len(members))
        entry.result = found.view(entry.value.dtype).reshape(entry.value.shape)

    def _alltoall(self, members: Sequence[int], response: Response, entry: Array) -> None:
        width = math.prod(entry.value.shape[1:]) * entry.value.itemsize
        ends = [np.cumsum(splits) * width for splits in response.splits]

        def combine(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
            pieces = [np.split(part, end) for part, end in zip(parts, ends)]
            return [np.concatenate([piece[place] for piece in pieces]) for place in range(len(members))]

        place = self._groups[response.process_set].place
        entry.received = np.array([splits[place] for splits in response.splits], np.int32)
        found = self._exchange(response, entry.value, combine).view(entry.value.dtype)
        entry.result = found.reshape(entry.received.sum(), *entry.value.shape[1:])

    def _exchange(self, response: Response, mine: np.ndarray, combine: Combine) -> np.ndarray:
        group = self._groups[response.process_set]
        data = np.ascontiguousarray(mine).reshape(-1).view(np.uint8)
        return combine([data])[0] if group.star is None else group.star.exchange(data, combine)


def reduced(op: int, dtype: np.dtype, parts: Sequence[np.ndarray]) -> np.ndarray:
    """The bytes of what the ranks' bytes are together, taken in the order of ranks."""
    return functools.reduce(OPS[op], [part.view(dtype) for part in parts]).view(np.uint8)


def scaled(values: np.ndarray, factor: float) -> np.ndarray:
    """Multiply: halves go through single precision, integers through double, and are truncated."""
    if factor == 1.0:
        return values
    if np.issubdtype(values.dtype, np.integer):
        return (values.astype(np.float64) * factor).astype(values.dtype)
    if values.dtype == np.float16:
        return (values.astype(np.float32) * np.float32(factor)).astype(np.float16)
    return values * values.dtype.type(factor)
