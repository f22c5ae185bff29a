"""Which tensors are ready, in one order for all ranks: the part of Horovod's coordinator that decides.

Ranks submit requests under names, in whatever order; a name is ready when every rank that has not joined has
submitted it. The words of the errors are Horovod's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

AVERAGE, SUM, ADASUM, MIN, MAX, PRODUCT = range(6)
FUSED_BYTES = 64 << 20
REDUCTIONS = ("ALLREDUCE", "ADASUM", "REDUCESCATTER")
ONE_SHAPE = (*REDUCTIONS, "BROADCAST")
ONE_TAIL = ("ALLGATHER", "ALLTOALL")
NOT_WITH_JOIN = {
    "ALLGATHER": "Allgather is not supported with Join at this time. "
    "Specify sparse_to_dense=True if using DistributedOptimizer",
    "ALLTOALL": "Alltoall is not supported with Join at this time.",
    "REDUCESCATTER": "Reducescatter is not supported with Join at this time.",
    "BROADCAST": "Broadcast is not supported with Join at this time.",
}


class Request(NamedTuple):
    """What one rank wants done with one tensor; ``root`` is a rank of all, ``ranks`` those of a new process set."""

    kind: str
    name: str
    process_set: int = 0
    dtype: str = ""
    shape: Sequence[int] = ()
    op: int = SUM
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = 0
    device: str = "CPU"
    splits: Sequence[int] = ()
    ranks: Sequence[int] = ()


class Response(NamedTuple):
    """What all members of a process set do next, with the tensors of one or several names.

    ``lengths`` are the first dimensions by member, ``splits`` the rows that each member sends to each. ``number`` is
    the rank that joined last, or the number of a process set that comes or goes.
    """

    kind: str
    names: Sequence[str]
    process_set: int = 0
    dtype: str = ""
    shapes: Sequence[Sequence[int]] = ()
    op: int = SUM
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = 0
    device: str = "CPU"
    lengths: Sequence[int] = ()
    splits: Sequence[Sequence[int]] = ()
    number: int = 0
    error: str = ""


class Negotiation:
    """The requests that wait for other ranks, and the process sets."""

    def __init__(self, size: int, process_sets: Iterable[Sequence[int]] = ()) -> None:
        self.members: dict[int, list[int]] = {0: list(range(size))}
        for ranks in process_sets:
            self.members[len(self.members)] = list(ranks)
        self.waiting: dict[tuple[int, str], dict[int, Request]] = {}
        self._next_set = len(self.members)
        self._free_sets: list[int] = []
        self._joined: list[int] = []

    def submit(self, rank: int, request: Request) -> list[Response]:
        """Take a rank's request; return what has become ready by it."""
        if request.kind == "JOIN":
            return self._join(rank)
        key = (request.process_set, request.name)
        self.waiting.setdefault(key, {})[rank] = request
        return [self._respond(key)] if self._is_ready(key) else []

    def missing(self, key: tuple[int, str]) -> list[int]:
        """The ranks that have not submitted this name."""
        joined = self._joined if key[0] == 0 else ()
        members = self.members.get(key[0], ())
        return [rank for rank in members if rank not in self.waiting[key] and rank not in joined]

    def _is_ready(self, key: tuple[int, str]) -> bool:
        return not self.missing(key)

    def _join(self, rank: int) -> list[Response]:
        self._joined.append(rank)
        ready = [self._respond(key) for key in list(self.waiting) if key[0] == 0 and self._is_ready(key)]
        if len(self._joined) == len(self.members[0]):
            ready.append(Response("JOIN", ["join"], number=rank))
            self._joined = []
        return ready

    def _respond(self, key: tuple[int, str]) -> Response:
        requests = [request for _, request in sorted(self.waiting.pop(key).items())]
        first = requests[0]
        if first.kind in ("ADD", "REMOVE"):
            return self._change_sets(requests)
        error = find_mismatch(requests, bool(self._joined) and key[0] == 0)
        return Response(
            first.kind,
            [first.name],
            first.process_set,
            first.dtype,
            [first.shape],
            first.op,
            first.prescale,
            first.postscale,
            first.root,
            first.device,
            [request.shape[0] for request in requests] if first.kind == "ALLGATHER" and not error else [],
            [request.splits for request in requests] if first.kind == "ALLTOALL" else [],
            error=error,
        )

    def _change_sets(self, requests: Sequence[Request]) -> Response:
        first = requests[0]
        if first.kind == "REMOVE":
            if self.members.pop(first.root, None):
                self._free_sets.append(first.root)
            return Response("REMOVE", [first.name], number=first.root)
        number = self._free_sets.pop(0) if self._free_sets else self._next_set
        self._next_set = max(self._next_set, number + 1)
        self.members[number] = list(first.ranks)
        return Response("ADD", [first.name], shapes=[first.ranks], number=number)


def find_mismatch(requests: Sequence[Request], joined: bool) -> str:
    """What stands against carrying out these requests together, in Horovod's words and order; "" if nothing does."""
    first = requests[0]
    for check in (_dtypes, _kinds, _shapes, _factors, _ops, _tails):
        for other in requests[1:]:
            if error := check(first, other):
                return error
    if joined and first.kind in NOT_WITH_JOIN:
        return NOT_WITH_JOIN[first.kind]
    if first.kind in (*ONE_TAIL, "REDUCESCATTER") and not first.shape:
        return f"Process-set rank zero tried to {first.kind} a rank-zero tensor."
    if first.kind == "ADASUM":
        return "No Adasum operation enabled"
    return next(filter(None, (_roots(first, other) or _devices(first, other) for other in requests[1:])), "")


def _dtypes(one: Request, other: Request) -> str:
    if one.dtype == other.dtype:
        return ""
    return f"Mismatched data types: One rank had type {one.dtype}, but another rank had type {other.dtype}."


def _kinds(one: Request, other: Request) -> str:
    if one.kind == other.kind:
        return ""
    return f"Mismatched operations: One rank did an {one.kind}, but another rank did an {other.kind}."


def _shapes(one: Request, other: Request) -> str:
    if one.kind not in ONE_SHAPE or list(one.shape) == list(other.shape):
        return ""
    return (
        f"Mismatched {one.kind} tensor shapes: One rank sent a tensor of shape {list(one.shape)}, "
        f"but another rank sent a tensor of shape {list(other.shape)}."
    )


def _factors(one: Request, other: Request) -> str:
    if one.kind not in REDUCTIONS or one[6:8] == other[6:8]:
        return ""
    return (
        "Mismatched prescale and/or postscale factors: "
        f"One rank sent factors ({one.prescale:g}, {one.postscale:g}), "
        f"but another rank sent factors ({other.prescale:g}, {other.postscale:g})."
    )


def _ops(one: Request, other: Request) -> str:
    if one.kind != "ALLREDUCE" or one.op == other.op:
        return ""
    return (
        f"Mismatched reduction operation: One rank sent reduction op {one.op}, "
        f"but another rank sent reduction op {other.op}."
    )


def _tails(one: Request, other: Request) -> str:
    if one.kind not in ONE_TAIL or list(one.shape[1:]) == list(other.shape[1:]):
        return ""
    start = f"Mismatched {one.kind} tensor shapes: One rank sent a tensor"
    if len(one.shape) != len(other.shape):
        return f"{start} of rank {len(one.shape)}, but another rank sent a tensor of rank {len(other.shape)}."
    at = next(i for i in range(1, len(one.shape)) if one.shape[i] != other.shape[i])
    return (
        f"{start} with dimension {at} equal to {one.shape[at]}, "
        f"but another rank sent a tensor with dimension {at} equal to {other.shape[at]}."
    )


def _roots(one: Request, other: Request) -> str:
    if one.kind != "BROADCAST" or one.root == other.root:
        return ""
    return (
        f"Mismatched BROADCAST root ranks: One rank specified root rank {one.root}, "
        f"but another rank specified root rank {other.root}."
    )


def _devices(one: Request, other: Request) -> str:
    if one.device == other.device:
        return ""
    return (
        f"Mismatched {one.kind} CPU/GPU device selection: One rank specified device {one.device}, "
        f"but another rank specified device {other.device}."
    )


def fuse(responses: Iterable[Response]) -> list[Response]:
    """Join all-reduces that are alike into one, as Horovod's fusion buffer does."""
    fused: list[Response] = []
    for response in responses:
        at = next((i for i, one in enumerate(fused) if _can_fuse(one, response)), None)
        if at is None:
            fused.append(response)
        else:
            one = fused[at]
            fused[at] = one._replace(names=[*one.names, *response.names], shapes=[*one.shapes, *response.shapes])
    return fused


def _can_fuse(one: Response, other: Response) -> bool:
    if one.kind != "ALLREDUCE" or one.error or other.error:
        return False
    alike = one._replace(names=other.names, shapes=other.shapes) == other
    return alike and _elements(one) + _elements(other) <= FUSED_BYTES // 8


def _elements(response: Response) -> int:
    total = 0
    for shape in response.shapes:
        elements = 1
        for length in shape:
            elements *= length
        total += elements
    return total
