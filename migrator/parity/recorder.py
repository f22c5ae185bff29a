"""Record what a training program computes, for ``hvd-migrate compare``; docs/trace.md is the format.

    python recorder.py --output FOLDER PROGRAM ARGUMENT...
    horovodrun -np 2 python recorder.py --output FOLDER PROGRAM ARGUMENT...

This file needs nothing but Python 3.8 and runs with PyTorch 1.x and later, so it can be copied to an old cluster alone;
for programs that train with TensorFlow ``recorder_tensorflow.py`` is copied along. It hooks into PyTorch, TensorFlow,
Keras and Horovod when the program imports them, edits nothing, draws no random number and changes no value. If it fails
itself, it says so in one line on stderr, and the program goes on.
"""

from __future__ import annotations

import argparse
import array
import atexit
import contextlib
import ctypes
import dis
import functools
import hashlib
import importlib.machinery
import importlib.util
import inspect
import json
import math
import os
import platform
import re
import runpy
import sys
import threading
import time
import types
import weakref
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Sequence

FORMAT = 1
LIMIT = 64 * 2**20
# Bytes up to which a tensor is hashed whole; the width, a prime, in which the words of a larger one are summed up.
SMALL = 64 * 1024
WIDTH = 2039

Tensor = Any
Module = Any
Frame = types.FrameType
Entry = List[Any]
Event = Dict[str, Any]

RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
ENVIRONMENT = re.compile(
    r"(CUBLAS_WORKSPACE_CONFIG|PYTHONHASHSEED|OMP_NUM_THREADS|MKL_\w+|CUDA_VISIBLE_DEVICES|NVIDIA_TF32_OVERRIDE"
    r"|TF_(ENABLE_ONEDNN_OPTS|USE_LEGACY_KERAS|NUM_INT(RA|ER)OP_THREADS|XLA_FLAGS|CUDNN_\w+)|KERAS_BACKEND"
    r"|NCCL_(ALGO|PROTO|P2P_DISABLE)|HOROVOD_(FUSION_THRESHOLD|CYCLE_TIME|CACHE_CAPACITY|HIERARCHICAL_\w+|FP16\w*))"
)


@dataclass(frozen=True)
class Options:
    """What to record and where; ``every`` and ``first`` choose the steps whose tensors are kept."""

    folder: str = ""
    every: int = 1
    first: int | None = None
    seed: int | None = None
    is_deterministic: bool = False
    lines: Sequence[str] = ()
    backend: str = ""
    limit: int = LIMIT

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> Options:
        """Read the HVD_MIGRATE_* variables."""

        def number(name: str) -> int | None:
            return int(environment[name]) if environment.get(name) else None

        return Options(
            folder=environment.get("HVD_MIGRATE_TRACE", ""),
            every=number("HVD_MIGRATE_EVERY") or 1,
            first=number("HVD_MIGRATE_FIRST"),
            seed=number("HVD_MIGRATE_SEED"),
            is_deterministic=environment.get("HVD_MIGRATE_DETERMINISTIC", "") not in ("", "0"),
            lines=_read_list(environment.get("HVD_MIGRATE_LINES", "")),
            backend=environment.get("HVD_MIGRATE_BACKEND", ""),
        )

    def wants_anything(self) -> bool:
        """Whether there is anything to do at all."""
        return bool(self.folder or self.seed is not None or self.is_deterministic or self.backend)


def _read_list(path: str) -> Sequence[str]:
    if not path:
        return ()
    with open(path, encoding="utf-8") as file:
        return tuple(json.load(file))


# Fingerprints of tensors


def fingerprints(tensors: Sequence[Tensor]) -> list[Entry]:
    """Return ``[digest, norm, element, ...]`` of each tensor; one that cannot be read has no digest and norm nan."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        try:
            parts = [_parts(torch, tensor) for tensor in tensors]
            flats = [_summed(torch, *pair) for pair in zip(tensors, parts)]
            return [[digest, *numbers] for digest, numbers in zip(_digests(torch, parts), _measures(torch, flats))]
        except Exception:
            if len(tensors) == 1:
                return [["", "nan"]]
    return [fingerprints([tensor])[0] for tensor in tensors]


def digests(tensors: Sequence[Tensor]) -> list[str]:
    """Return a digest of each tensor that depends on its dtype, shape and bytes only; 16 hex digits, or none."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        try:
            return _digests(torch, [_parts(torch, tensor) for tensor in tensors])
        except Exception:
            if len(tensors) == 1:
                return [""]
    return [digests([tensor])[0] for tensor in tensors]


class _Part(NamedTuple):
    """A strided tensor, or one of those that a sparse one consists of: what it is called, and its elements in a row."""

    header: str
    flat: Tensor


def _parts(torch: Any, tensor: Tensor) -> list[_Part]:
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.layout is torch.sparse_coo:
        return [_part(torch, tensor._indices()), _part(torch, tensor._values())]
    return [_part(torch, tensor if tensor.layout is torch.strided else tensor.to_dense())]


def _summed(torch: Any, tensor: Tensor, parts: Sequence[_Part]) -> Tensor:
    """The elements in a row; of a sparse tensor the values, those for the same place added up."""
    return parts[0].flat if len(parts) == 1 else _part(torch, tensor.detach().coalesce()._values()).flat


def _part(torch: Any, tensor: Tensor) -> _Part:
    header = f"{_dtype(tensor)} {list(tensor.shape)} "
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor.resolve_conj() if hasattr(tensor, "resolve_conj") else tensor)
    if hasattr(tensor, "resolve_neg"):
        tensor = tensor.resolve_neg()
    return _Part(header, tensor.contiguous().reshape(-1))


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).replace("torch.", "")


def _digests(torch: Any, tensors: Sequence[Sequence[_Part]]) -> list[str]:
    parts = [part for tensor in tensors for part in tensor]
    contents = iter(_contents(torch, [part.flat for part in parts]))
    return [
        _digest(*(each for part in tensor for each in (part.header.encode(), next(contents)))) for tensor in tensors
    ]


def _digest(*pieces: bytes) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()[:16]


def _contents(torch: Any, flats: Sequence[Tensor]) -> list[bytes]:
    """The bytes of each small tensor, the sums of each large one; one transfer for all that lie on one device."""
    found: dict[int, bytes] = {}
    waiting: dict[Any, list[tuple[int, Tensor]]] = {}
    for index, flat in enumerate(flats):
        if flat.device.type == "cpu":
            found[index] = _bytes(flat) if _size(flat) <= SMALL else b"".join(map(_bytes, _sums(torch, flat)))
        else:
            pieces = [flat.view(torch.uint8)] if _size(flat) <= SMALL else _sums(torch, flat)
            waiting.setdefault(flat.device, []).append((index, torch.cat([each.view(torch.uint8) for each in pieces])))
    for pairs in waiting.values():
        data = _bytes(torch.cat([piece for _, piece in pairs]).cpu())
        for index, piece in pairs:
            found[index], data = data[: piece.numel()], data[piece.numel() :]
    return [found[index] for index in range(len(flats))]


def _size(flat: Tensor) -> int:
    return int(flat.numel() * flat.element_size())


def _bytes(flat: Tensor) -> bytes:
    size, address = _size(flat), flat.data_ptr() if flat.numel() else 0
    if size and not address:
        raise ValueError("a tensor without data")
    return ctypes.string_at(address, size) if size else b""


def _sums(torch: Any, flat: Tensor) -> list[Tensor]:
    """Sums modulo 2**64 of the 8-byte words, laid out in rows of one width; and the bytes left over.

    Two words that change places change some sum, unless they lie a multiple of the width apart, as no two rows of a
    matrix do whose length is usual. This runs at the speed of memory, which no hash of all bytes does.
    """
    try:
        if flat.storage_offset() * flat.element_size() % 8:
            flat = flat.clone()
        raw = flat.view(torch.uint8)
        whole = raw.numel() // 8
        words = raw[: whole * 8].view(torch.int64)
    except (RuntimeError, TypeError, AttributeError):  # PyTorch before 1.10 cannot see words in other elements
        return _sums_of_bytes(torch, _bytes(flat.cpu()))
    rows = whole // WIDTH
    total = words[: rows * WIDTH].view(rows, WIDTH).sum(0)
    total[: whole - rows * WIDTH] += words[rows * WIDTH :]
    return [total, raw[whole * 8 :]]


def _sums_of_bytes(torch: Any, data: bytes) -> list[Tensor]:
    whole = len(data) // 8
    words = array.array("q")
    words.frombytes(data[: whole * 8])
    totals = [sum(words[start::WIDTH]) & (2**64 - 1) for start in range(WIDTH)]
    signed = [total - 2**64 if total >= 2**63 else total for total in totals]
    rest = torch.tensor(list(data[whole * 8 :]), dtype=torch.uint8, device="cpu")
    return [torch.tensor(signed, dtype=torch.int64, device="cpu"), rest]


def _measures(torch: Any, flats: Sequence[Tensor]) -> list[Entry]:
    """The norm and the sample of each tensor."""
    found: dict[int, Entry] = {}
    waiting: dict[Any, list[tuple[int, Tensor]]] = {}
    for index, flat in enumerate(flats):
        if not flat.numel():
            found[index] = [0.0]
            continue
        norm, sample = _norm(torch, flat), flat[:: max(1, (flat.numel() - 1) // 3)][:4]
        if flat.device.type == "cpu":
            found[index] = [_number(norm.item()), *map(_number, sample.tolist())]
        else:
            both = torch.cat([norm.reshape(1).to(torch.float64), sample.to(torch.float64)])
            waiting.setdefault(flat.device, []).append((index, both))
    for pairs in waiting.values():
        numbers = list(map(_number, torch.cat([both for _, both in pairs]).tolist()))
        for index, both in pairs:
            found[index], numbers = numbers[: both.numel()], numbers[both.numel() :]
    return [found[index] for index in range(len(flats))]


def _norm(torch: Any, flat: Tensor) -> Tensor:
    if flat.dtype not in (torch.float32, torch.float64):
        flat = flat.to(torch.float32 if flat.dtype.is_floating_point else torch.float64)
    return flat.norm()


def _number(value: Any) -> Any:
    try:
        value = float(value)
    except (TypeError, ValueError):
        return "nan"
    return value if math.isfinite(value) else str(value)


def _tensors(value: Any, depth: int = 0) -> Iterator[Tensor]:
    """The tensors in nested arguments, in order."""
    if isinstance(value, sys.modules["torch"].Tensor):
        yield value
    elif depth < 8:
        if isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            for each in value:
                yield from _tensors(each, depth + 1)


def _named_tensors(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """The tensors in what is saved, by their keys joined with dots."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.nn.Module):
        value = value.state_dict()
    if isinstance(value, torch.Tensor):
        yield name, value
    elif depth < 16 and isinstance(value, (Mapping, list, tuple)):
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, each in pairs:
            yield from _named_tensors(each, f"{name}.{key}" if name else str(key), depth + 1)


# Collectives as the program means them


class Helper(NamedTuple):
    """A function that hvd-migrate writes into programs: the collective that a call of it stands for."""

    kind: str
    reduction: str = ""
    purpose: str = "value"


# By name. The reduction ``op`` is the argument of that name.
HELPERS = {
    "all_gather_async": Helper("allgather"),
    "all_gather_cat": Helper("allgather"),
    "all_gather_object": Helper("object"),
    "all_reduce": Helper("allreduce", "op"),
    "all_reduce_": Helper("allreduce", "op"),
    "all_reduce_async": Helper("allreduce", "op"),
    "all_reduce_mean": Helper("allreduce", "average"),
    "all_reduce_mean_": Helper("allreduce", "average"),
    "all_to_all": Helper("alltoall"),
    "all_to_all_async": Helper("alltoall"),
    "average_gradients": Helper("allreduce", "average", "gradients"),
    "average_gradients_of": Helper("allreduce", "average", "gradients"),
    "broadcast": Helper("broadcast"),
    "broadcast_": Helper("broadcast"),
    "broadcast_async": Helper("broadcast"),
    "broadcast_object": Helper("object"),
    "broadcast_optimizer_state": Helper("broadcast", "", "state"),
    "broadcast_parameters": Helper("broadcast", "", "state"),
    "count_training": Helper("join"),
    "gathered": Helper("object", "", "result"),
    "join": Helper("join"),
    "reduce_scatter": Helper("reducescatter", "op"),
    "reduce_scatter_async": Helper("reducescatter", "op"),
    "sparse_all_reduce_async": Helper("allreduce", "op"),
    "sum_gradients": Helper("allreduce", "sum", "gradients"),
}
# A program may have a function of the same name, so a helper is known by its docstring, and keeps that when renamed.
DOCSTRINGS = {
    "Start to concatenate ``tensor`` from all ranks along its first dimension, whose length may differ.": (
        "all_gather_async"
    ),
    "Concatenate ``tensor`` from all ranks along its first dimension, whose length may differ.": "all_gather_cat",
    "Return the ``value`` of every rank, as a list by rank.": "all_gather_object",
    "Return ``tensor`` reduced over all ranks by ``op`` as a new tensor.": "all_reduce",
    "Reduce ``tensor`` over all ranks by ``op`` in place, and return it.": "all_reduce_",
    "Start to reduce ``tensor`` over all ranks by ``op`` in place; ``synchronize`` finishes that.": "all_reduce_async",
    "Return what every rank returned, once all have ended.": "gathered",
    "Return the mean of ``tensor`` over all ranks as a new tensor; integers truncate toward zero.": "all_reduce_mean",
    "Replace ``tensor`` by its mean over all ranks, and return it; integers truncate toward zero.": "all_reduce_mean_",
    "Send each rank its rows of ``tensor``; return those received, and how many came from each rank.": "all_to_all",
    "Start to send each rank its rows of ``tensor``; the result is those received, and how many by rank.": (
        "all_to_all_async"
    ),
    "Replace every gradient by its mean over all ranks; a missing one counts as zero.": "average_gradients",
    "Replace every gradient by its mean over all ranks, sent as dtype ``compression``.": "average_gradients",
    "Replace the gradient of every parameter by its mean over all ranks; a missing one counts as zero.": (
        "average_gradients_of"
    ),
    "Return rank ``src``'s ``tensor`` on every rank as a new tensor.": "broadcast",
    "Fill ``tensor`` with that of rank ``src``, and return it.": "broadcast_",
    "Start to fill ``tensor`` with that of rank ``src``.": "broadcast_async",
    "Return rank ``src``'s ``value`` on every rank.": "broadcast_object",
    "Give every rank the optimizer state and options of rank ``src``.": "broadcast_optimizer_state",
    "Copy the tensors of a state_dict, or of (name, tensor) pairs, from rank ``src`` to all ranks.": (
        "broadcast_parameters"
    ),
    "Return how many ranks still train; every rank calls this before each reduction of gradients.": "count_training",
    "Answer the reductions of ranks that still train with zeros; return the last rank that stopped.": "join",
    "Return this rank's rows of ``tensor`` reduced by ``op``; the first ranks get the rows left over.": (
        "reduce_scatter"
    ),
    "Start to reduce ``tensor`` by ``op``; the result is this rank's rows of it.": "reduce_scatter_async",
    "Start to gather the sparse ``tensor`` of all ranks; return the function that gives their sum or mean.": (
        "sparse_all_reduce_async"
    ),
    "Replace every gradient by its sum over all ranks; a missing one counts as zero.": "sum_gradients",
    "Replace every gradient by its sum over all ranks, sent as dtype ``compression``.": "sum_gradients",
}
# Functions of torch.distributed: kind, and the parameter that holds what is sent.
DISTRIBUTED = {
    "all_reduce": ("allreduce", "tensor"),
    "all_reduce_coalesced": ("allreduce", "tensors"),
    "reduce": ("reduce", "tensor"),
    "broadcast": ("broadcast", "tensor"),
    "all_gather": ("allgather", "tensor"),
    "all_gather_coalesced": ("allgather", "input_tensor_list"),
    "all_gather_into_tensor": ("allgather", "input_tensor"),
    "_all_gather_base": ("allgather", "input_tensor"),
    "gather": ("gather", "tensor"),
    "scatter": ("scatter", "tensor"),
    "reduce_scatter": ("reducescatter", "input_list"),
    "reduce_scatter_tensor": ("reducescatter", "input"),
    "_reduce_scatter_base": ("reducescatter", "input"),
    "all_to_all": ("alltoall", "input_tensor_list"),
    "all_to_all_single": ("alltoall", "input"),
    "barrier": ("barrier", ""),
    "monitored_barrier": ("barrier", ""),
    "all_gather_object": ("object", ""),
    "gather_object": ("object", ""),
    "broadcast_object_list": ("object", ""),
    "scatter_object_list": ("object", ""),
}
HOROVOD = re.compile(r"(grouped_|sparse_)?(allreduce|allgather|broadcast|alltoall|reducescatter)(_async)?_?")
REDUCTIONS = {"AVG": "average", "SUM": "sum", "MIN": "min", "MAX": "max", "PRODUCT": "product"}


class Collective:
    """One logical collective; elements are counted by dtype, because a model may have several."""

    def __init__(
        self, kind: str, reduction: str = "", purpose: str = "value", is_exact: bool = True, sent: Iterable[Tensor] = ()
    ) -> None:
        self.kind, self.reduction, self.purpose, self.is_exact = kind, reduction, purpose, is_exact
        self.elements: dict[str, int] = {}
        for tensor in sent:
            self.add(_dtype(tensor), _count(tensor))

    def add(self, dtype: str, elements: int) -> None:
        """Count more elements into it."""
        self.elements[dtype] = self.elements.get(dtype, 0) + elements

    def entry(self) -> Entry:
        """The collective as a trace has it; the dtype is that of most elements."""
        dtype = max(self.elements, key=lambda each: (self.elements[each], each)) if self.elements else ""
        return [self.kind, self.reduction, dtype, sum(self.elements.values()), self.purpose, self.is_exact]


def _count(tensor: Tensor) -> int:
    return int(tensor._values().numel() if tensor.layout is sys.modules["torch"].sparse_coo else tensor.numel())


def _reduction(op: Any) -> str:
    if op is None:
        return "average"
    found = re.search("AVG|SUM|MIN|MAX|PRODUCT", getattr(op, "name", None) or str(op))
    if found:
        return REDUCTIONS[found[0]]
    known = sys.modules["torch"].distributed.ReduceOp  # PyTorch 1.13's have no name
    return next((text for name, text in REDUCTIONS.items() if op == getattr(known, name, None)), "")


def _module_of(frame: Frame) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_torch(frame: Frame) -> bool:
    return (_module_of(frame) + ".").startswith("torch.")


def _frames(frame: Frame | None) -> Iterator[Frame]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_division(instruction: dis.Instruction) -> bool:
    return (
        instruction.argval in ("div", "div_", "truncatediv")
        or instruction.argrepr in ("/", "/=")
        or instruction.opname.endswith("TRUE_DIVIDE")
    )


class HelperFrames:
    """Finds the frames of helpers on the stack, which are known by their docstrings."""

    def __init__(self, helpers: Mapping[str, tuple[str, Helper]]) -> None:
        self._helpers = helpers
        self._known: dict[int, tuple[types.CodeType, str, Helper | None]] = {}

    def outermost(self, frame: Frame) -> tuple[Frame, str, Helper] | None:
        """The outermost frame from ``frame`` on that runs a helper, its name there, and what it stands for."""
        found = None
        for each in _frames(frame):
            _, name, helper = self._known.get(id(each.f_code)) or self._look(each.f_code)
            if helper is not None:
                found = each, name, helper
        return found

    def _look(self, code: types.CodeType) -> tuple[types.CodeType, str, Helper | None]:
        docstring = code.co_consts[0] if code.co_consts else None
        name, helper = self._helpers.get(docstring, ("", None)) if isinstance(docstring, str) else ("", None)
        if helper and helper.reduction == "average" and not any(map(_is_division, dis.get_instructions(code))):
            helper = helper._replace(reduction="sum")  # somebody took the division out
        self._known[id(code)] = found = code, name, helper
        return found


def _starts(name: str, function: str, frame: Frame, inner: Frame) -> bool:
    """Whether this call of ``function`` is the first of those that helper ``name`` makes for one collective."""
    if name in ("all_gather_cat", "all_gather_async"):
        above = frame.f_back
        is_length = above is not None and "lengths" in above.f_code.co_varnames and "lengths" not in above.f_locals
        return function == "all_gather" and not (is_length and "ctx" in above.f_code.co_varnames)  # type: ignore[union-attr]
    if name in ("all_to_all", "all_to_all_async"):
        return "result" not in frame.f_locals
    if name == "sparse_all_reduce_async":
        return function == "all_gather" and "indices" not in frame.f_locals
    if name == "join":
        return "result" in frame.f_locals
    return name != "count_training"


def _gradients_sent(function: str, frame: Frame, helper: Frame, sent: Sequence[Tensor]) -> list[Tensor]:
    """What a helper that reduces gradients sends: its flat buffers, and the values of sparse gradients."""
    if frame is helper:
        return list(sent) if function == "all_reduce" else []
    values = frame.f_locals.get("tensor") if function == "all_gather" else None
    return [values] if values is not None and values.is_floating_point() else []


# The recorder


class _ByIdentity:
    """Values by object; neither keeps the objects alive nor asks them for a hash."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Any, Any]] = {}

    def get(self, key: Any) -> Any:
        """The value of ``key``, or None."""
        reference, value = self._entries.get(id(key), (None, None))
        return value if reference is not None and reference() is key else None

    def set(self, key: Any, value: Any) -> None:
        """Give ``key`` a value."""
        number = id(key)
        self._entries[number] = (weakref.ref(key, lambda _: self._entries.pop(number, None)), value)

    def items(self) -> list[tuple[Any, Any]]:
        """The objects that are still there, oldest first, and their values."""
        pairs = [(reference(), value) for reference, value in list(self._entries.values())]
        return [(key, value) for key, value in pairs if key is not None]

    def remove(self, key: Any) -> None:
        """Forget ``key``."""
        self._entries.pop(id(key), None)


class KnownOptimizer:
    """An optimizer that has stepped; ``number`` is set once it has taken a step that trains."""

    def __init__(self, optimizer: Any, parameters: Sequence[Tensor]) -> None:
        self.type = type(optimizer).__name__
        self.identities = [id(parameter) for parameter in parameters]
        self.references = [weakref.ref(parameter) for parameter in parameters]
        self.number: int | None = None
        self.start: list[Entry] = []
        self.steps = 0
        self.initial: list[Event] = []

    def is_alive(self) -> bool:
        """Whether its parameters are still there."""
        return all(reference() is not None for reference in self.references)

    def matches(self, optimizer: Any, parameters: Sequence[Tensor]) -> bool:
        """Whether ``optimizer`` is of the same type and has the very same parameters."""
        return (
            self.type == type(optimizer).__name__
            and len(parameters) == len(self.references)
            and all(reference() is each for reference, each in zip(self.references, parameters))
        )


@dataclass
class RunningStep:
    """A step under way."""

    optimizer: Any
    function: Callable[..., Any]
    has_closure: bool
    is_initial: bool = False
    known: KnownOptimizer | None = None
    is_kept: bool = False
    has_inner: bool = False
    gradients: list[Entry | None] | None = None
    before: list[Entry] = field(default_factory=list)
    rates: list[Any] = field(default_factory=list)


class _Inside(threading.local):
    """What this thread is in the middle of."""

    call = False
    backward = False
    collective = False

    def __init__(self) -> None:
        self.steps: list[RunningStep] = []


def _parameters(optimizer: Any) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _plain(name: str) -> str:
    """The name that a parameter has without wrappers around its module."""
    return ".".join(part for part in name.split(".") if part not in ("module", "_orig_mod"))


def _is_initial(frame: Frame) -> bool:
    """Whether this step is the one with zero gradients by which Horovod creates an optimizer's state."""
    return any(
        each.f_code.co_name == "broadcast_optimizer_state" and _module_of(each) == "horovod.torch.functions"
        for each in _frames(frame)
    )


def rank_and_size() -> tuple[int, int] | None:
    """This process's rank and how many there are, as its launcher says, or None."""
    for rank, size in RANKS:
        with contextlib.suppress(ValueError):
            if rank in os.environ:
                return int(os.environ[rank]), int(os.environ.get(size, 1))
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        return _rank_of_worker(json.loads(os.environ.get("TF_CONFIG", "")))
    return None


def _rank_of_worker(config: Any) -> tuple[int, int]:
    """The rank that a TF_CONFIG gives: a chief comes before the workers."""
    cluster, task = config["cluster"], config["task"]
    chiefs, workers = len(cluster.get("chief", ())), len(cluster.get("worker", ()))
    return int(task["index"]) + (chiefs if task["type"] == "worker" else 0), chiefs + workers


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of the recorder that a failure of its own ends, and nothing else."""

    @functools.wraps(method)
    def guarded(self: Recorder, *args: Any) -> Any:
        return self.attempt(method, self, *args)

    return guarded


class Framework:
    """What another framework than PyTorch adds to the record of a process."""

    def restart(self) -> None:
        """Begin anew, as a process that has just been forked does."""

    def conditions(self) -> dict[str, str]:
        """What the numbers may depend on, by name."""
        return {}

    def buffers(self) -> Event:
        """What models hold at the end besides what is trained, by name."""
        return {}


class Recorder:
    """What one process has done since its last step, and the file that it goes to."""

    def __init__(self, options: Options, is_owner: bool) -> None:
        self.options = options
        self.started = time.time()
        self.run_started = _run_started(self.started)
        self.lines = Lines(options.lines)
        self.helpers = HelperFrames({text: (name, HELPERS[name]) for text, name in DOCSTRINGS.items()})
        self.outer: set[Callable[..., Any]] = set()
        self.frameworks: list[Framework] = []
        self.restart(is_owner)

    def restart(self, is_owner: bool) -> None:
        """Begin anew, as a process that has just been forked does."""
        self.is_owner = is_owner
        self.place = rank_and_size()
        self.lock = threading.RLock()
        self.inside = _Inside()
        self.is_stopped = not self.options.folder
        self.file: Any = None
        self.written = 0
        self.waiting: list[Event] = []
        self.error = ""
        self.device = ""
        self.has_trained = False
        self.number = 0
        self.losses: list[Any] = []
        self.batch: Any = None
        self.collectives: list[Collective] = []
        self.gradients: list[Collective] = []
        self.site: Any = None
        self.modules = _ByIdentity()
        self.optimizers = _ByIdentity()
        self.initial: list[KnownOptimizer] = []
        self.numbered: list[KnownOptimizer] = []
        self.optimizer_count = 0
        self.buffers: list[tuple[Any, dict[str, Tensor]]] = []
        self.synchronized = _ByIdentity()
        self.last: tuple[Event, Callable[[], list[Entry]]] | None = None
        for framework in self.frameworks:
            framework.restart()

    def attempt(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a part of the recorder, of which a failure ends the recording and nothing else."""
        if self.is_stopped:
            return None
        try:
            with self.lock:
                return function(*args)
        except Exception as error:
            self.stop(f"recording stopped: {type(error).__name__}: {error}")
            return None

    def stop(self, message: str) -> None:
        """Record nothing more, and say why in one line."""
        self.is_stopped = True
        with contextlib.suppress(Exception):
            print("hvd-migrate recorder:", " ".join(message.split()), file=sys.stderr, flush=True)

    # The file

    def _emit(self, event: Event) -> None:
        if self.file is None:
            if not self.has_trained and rank_and_size() is None:
                self.waiting.append(event)
                return
            self._open()
        self._write(event)

    def _open(self) -> None:
        rank, size = self._identity()
        path = os.path.join(self.options.folder, f"rank{rank}.jsonl")
        os.makedirs(self.options.folder, exist_ok=True)
        if os.path.exists(path) and os.stat(path).st_mtime >= self.run_started:
            return self.stop(f"not recording: another process of this run has written {path}")
        self.file = open(path, "wb", buffering=0)  # noqa: SIM115
        self._write(
            {
                "event": "start",
                "format": FORMAT,
                "rank": rank,
                "size": size,
                "program": os.path.basename(sys.argv[0]) if sys.argv else "",
                "arguments": sys.argv[1:],
                "conditions": conditions(self, size),
            }
        )
        for event in self.waiting:
            self._write(event)
        self.waiting = []
        return None

    def _identity(self) -> tuple[int, int]:
        found = rank_and_size()
        if found is None:
            distributed = getattr(sys.modules.get("torch"), "distributed", None)
            with contextlib.suppress(Exception):
                found = distributed.get_rank(), distributed.get_world_size()  # type: ignore[union-attr]
        return found or (0, 1)

    def _write(self, event: Event) -> None:
        if not self.is_stopped:
            line = (json.dumps(event, separators=(",", ":")) + "\n").encode()
            self.written += len(line)
            self.file.write(line)

    def _seconds(self) -> float:
        return round(time.time() - self.started, 6)

    # Modules and backward

    @_guarded
    def before_call(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A module is called that no other module calls."""
        torch = sys.modules["torch"]
        if self._is_in_backward(torch) or _is_tracing(torch):
            return
        self.site = None
        if self.modules.get(module) is None:
            self.modules.set(module, True)
            self._hold_buffers(module)
        if torch.is_grad_enabled():
            given = [tensor for tensor in _tensors([args, kwargs]) if not tensor.requires_grad]
            if given:
                self.batch = self.batch or hashlib.sha256()
                self.batch.update("".join(digests(given)).encode())

    def _is_in_backward(self, torch: Any) -> bool:
        task = getattr(torch._C, "_current_graph_task_id", None)
        return self.inside.backward or (task is not None and task() != -1)

    def is_nested_backward(self) -> bool:
        """Whether this backward runs within another, as that of a checkpoint does."""
        return self.is_stopped or self._is_in_backward(sys.modules["torch"])

    @_guarded
    def before_backward(self, roots: Any) -> list[Any]:
        """Return the losses that a backward starts from."""
        self.site = None
        for model, _ in self.synchronized.items():
            self.synchronized.set(model, _gradient_versions(model))
        losses = []
        for root in _tensors([roots]):
            value = root.detach()
            self.device = self.device or value.device.type
            losses.append(_number(value.item() if value.numel() == 1 else value.norm().item()))
        self.starts_to_train(torch_states, sys.modules["torch"].initial_seed())
        return losses

    def starts_to_train(self, states: Callable[[], dict[str, str]], seed: Any) -> None:
        """The first backward is about to begin: write down the ``states`` of random generators."""
        if not self.has_trained:
            self.has_trained = True
            self._emit({"event": "random", "states": {**random_states(), **states()}, "seed": seed})

    @_guarded
    def after_backward(self, losses: list[Any] | None) -> None:
        """A backward has ended: it counts, and the models that DDP has synchronized in it have reduced."""
        self.losses.append(losses or [])
        for model, versions in self.synchronized.items():
            if versions != _gradient_versions(model):
                self.synchronized.remove(model)
                if not getattr(model, "_comm_hooks", None):
                    self.gradients.append(Collective("allreduce", "average", "gradients", True, _trainable(model)))

    @_guarded
    def before_ddp_forward(self, model: Module) -> None:
        """A model under DDP runs; the next backward through it reduces its gradients unless it was told not to."""
        if sys.modules["torch"].is_grad_enabled() and _world_size(model) > 1:
            if model.require_backward_grad_sync:
                self.synchronized.set(model, None)
            else:
                self.synchronized.remove(model)

    # Optimizers

    @_guarded
    def before_step(self, running: RunningStep, frame: Frame) -> None:
        """An optimizer is about to step, or one inside of it."""
        optimizer, stack = running.optimizer, self.inside.steps
        if stack:
            stack[-1].has_inner = True
        stack.append(running)
        if running.function in self.outer or _is_capturing():
            return
        parameters = _parameters(optimizer)
        running.is_initial = _is_initial(frame)
        running.known = known = self._known(optimizer, parameters)
        running.rates = [_number(group.get("lr", "nan")) for group in optimizer.param_groups]
        running.is_kept = self.keeps(known.steps)
        if known.number is None or running.is_initial:
            running.before = fingerprints(parameters) if self.written < self.options.limit else []
        if running.is_kept and not running.has_closure:
            running.gradients = _gradients(parameters)

    def keeps(self, steps: int) -> bool:
        options = self.options
        return (
            steps % options.every == 0
            and (options.first is None or steps < options.first)
            and self.written < options.limit
        )

    def _known(self, optimizer: Any, parameters: Sequence[Tensor]) -> KnownOptimizer:
        known = self.optimizers.get(optimizer)
        if known is None or known.identities != [id(each) for each in parameters]:
            # Horovod's wrapper is a new object that goes on where the optimizer in it left off.
            is_wrapper = type(optimizer).__module__ == "horovod.torch.optimizer"
            earlier = [*self.initial, *(reversed(self.numbered) if is_wrapper else ())]
            known = next((each for each in earlier if each.matches(optimizer, parameters)), None)
            known = known or KnownOptimizer(optimizer, parameters)
            known.identities = [id(each) for each in parameters]
            self.optimizers.set(optimizer, known)
        return known  # type: ignore[no-any-return]

    def leave_step(self, running: RunningStep) -> None:
        """A step has ended, or failed."""
        if running in self.inside.steps:
            self.inside.steps.remove(running)

    @_guarded
    def after_step(self, running: RunningStep) -> None:
        """A step has succeeded; it counts if no step ran inside of it."""
        if running.has_inner:
            self.outer.add(running.function)
        if running.has_inner or running.known is None:
            return
        parameters, known = _parameters(running.optimizer), running.known
        self.device = self.device or (parameters[0].device.type if parameters else "")
        event = self.new_step(running.rates, running.is_initial)
        if running.is_kept:
            event["gradients"] = _gradients(parameters) if running.gradients is None else running.gradients
            event["parameters"] = fingerprints(parameters)
        if running.is_initial:
            event["before"] = running.before
            self._initial_step(event, known)
            return
        known.start = running.before
        self.take_step(event, known, lambda: self._describe(running.optimizer.param_groups))
        detached = [parameter.detach() for parameter in parameters]
        self.last = None if running.is_kept else (event, lambda: fingerprints(detached))

    def new_step(self, rates: list[Any], is_initial: bool = False) -> Event:
        """A step of which nothing is known yet but its learning rates."""
        event: Event = {"event": "step", "number": 0, "optimizer": 0, "initial": is_initial}
        event.update(losses=[], backwards=0, rates=rates, batch="", gradients=[], parameters=[], collectives=[])
        event["seconds"] = self._seconds()
        return event

    def take_step(self, event: Event, known: KnownOptimizer, described: Callable[[], list[Entry]]) -> None:
        """Write down a step that trains, before the first of an optimizer that with its ``described`` parameters."""
        self.has_trained = True
        known.steps += 1
        event.update(self._since_last_step())
        if known.number is None:
            self._number(known, described())
        self._step(event, known)

    def _initial_step(self, event: Event, known: KnownOptimizer) -> None:
        """Keep the step until the optimizer is written down, under names that only training may give its parameters."""
        if known.number is not None:
            self._step(event, known)
            return
        known.initial.append(event)
        known.start = event["before"]
        if known not in self.initial:
            self.initial.append(known)

    def _since_last_step(self) -> Event:
        batch = self.batch.hexdigest()[:16] if self.batch else ""
        losses = [loss for each in self.losses for loss in each]
        found = {
            "losses": losses,
            "backwards": len(self.losses),
            "batch": batch,
            "collectives": self._take_collectives(),
        }
        self.losses, self.batch = [], None
        for reference, held in self.buffers:
            _refresh(reference, held)
        return found

    def _take_collectives(self) -> list[Entry]:
        """The collectives since the last step; those of its gradients are one, and come last."""
        found = [each.entry() for each in self.collectives]
        if self.gradients:
            merged = max(self.gradients, key=lambda each: sum(each.elements.values()))
            merged = Collective(merged.kind, merged.reduction, "gradients", merged.is_exact)
            for each in self.gradients:
                for dtype, elements in each.elements.items():
                    merged.add(dtype, elements)
            found.append(merged.entry())
        self.collectives, self.gradients, self.site = [], [], None
        return found

    def _number(self, known: KnownOptimizer, parameters: list[Entry]) -> None:
        """Write an optimizer down at its first step that trains, and the initial steps before that."""
        known.number, self.optimizer_count = self.optimizer_count, self.optimizer_count + 1
        self._emit(
            {
                "event": "optimizer",
                "number": known.number,
                "type": known.type,
                "parameters": parameters,
                "start": known.start,
            }
        )
        for event in known.initial:
            self._step(event, known)
        known.initial, known.start = [], []
        self.initial = [each for each in self.initial if each is not known]
        self.numbered = [*(each for each in self.numbered if each.is_alive()), known]

    def _step(self, event: Event, known: KnownOptimizer) -> None:
        event["optimizer"], event["number"] = known.number, self.number
        self.number += 1
        self._emit(event)

    def _describe(self, groups: Sequence[Mapping[str, Any]]) -> list[Entry]:
        names: dict[int, str] = {}
        for module, _ in self.modules.items():
            for name, parameter in module.named_parameters():
                names.setdefault(id(parameter), _plain(name))
        found: list[Entry] = []
        taken = set()
        for number, group in enumerate(groups):
            for index, parameter in enumerate(group["params"]):
                place = f"{number}.{index}"
                name = names.get(id(parameter), place)
                name = f"{name} ({place})" if name in taken else name
                taken.add(name)
                found.append([name, list(parameter.shape), _dtype(parameter)])
        return found

    # Collectives

    @_guarded
    def torch_collective(self, function: str, kind: str, sent: Sequence[Tensor], op: Any, root: Any, at: Frame) -> None:
        """A function of torch.distributed is called by code that is no part of another collective."""
        caller = at
        for caller in _frames(at):
            if _module_of(caller) == "torch.nn.modules._functions":
                return  # SyncBatchNorm
            if "bucket" in caller.f_code.co_varnames[1:2]:  # a hook by which DDP reduces; it insists on that name
                is_known = _is_torch(caller)
                reduction = "average" if is_known else _reduction(op)
                self.gradients.append(Collective(kind, reduction, "gradients", is_known, sent))
                return
            if not _is_torch(caller):
                break
        library = _module_of(caller).split(".")[0]
        if library == "deepspeed":
            self._engine_collective(kind, sent, caller)
        if library in ("horovod", "deepspeed"):
            return
        found = self.helpers.outermost(caller)
        if found is None:
            reduction = _reduction(op) if kind in ("allreduce", "reduce", "reducescatter") else ""
            collective = Collective(kind, reduction, is_exact=not reduction, sent=sent)
            self.add(collective, (id(caller.f_code), caller.f_lasti, root))
        elif found[2].purpose != "result":  # what a launcher did for the original
            self._helper_collective(function, sent, caller, root, *found)

    def _engine_collective(self, kind: str, sent: Sequence[Tensor], caller: Frame) -> None:
        """An engine of DeepSpeed averages gradients or broadcasts weights; what else it exchanges is its own affair."""
        for frame in _frames(caller):
            name = frame.f_code.co_name if _module_of(frame).startswith("deepspeed") else ""
            if name == "allreduce_bucket" and kind == "allreduce":
                self.gradients.append(Collective(kind, "average", "gradients", True, sent))
            elif name == "_broadcast_model" and kind == "broadcast":
                self.add(Collective(kind, "", "state", True, sent), id(frame.f_code))
            if name in ("allreduce_bucket", "_broadcast_model", ""):
                return

    def _helper_collective(
        self, function: str, sent: Sequence[Tensor], caller: Frame, root: Any, frame: Frame, name: str, helper: Helper
    ) -> None:
        if helper.purpose == "gradients":
            gradients = _gradients_sent(function, caller, frame, sent)
            if gradients:
                self.gradients.append(Collective(helper.kind, helper.reduction, "gradients", True, gradients))
        elif name == "broadcast_parameters":
            self.add(Collective("broadcast", "", "state", True, sent), frame)
        elif _starts(name, function, frame, caller):
            reduction = _reduction(frame.f_locals.get("op")) if helper.reduction == "op" else helper.reduction
            given = frame.f_locals.get(frame.f_code.co_varnames[0]) if frame.f_code.co_argcount else None
            has_tensor = helper.kind in ("allreduce", "allgather", "broadcast", "reducescatter", "alltoall")
            tensors = [given] if has_tensor and helper.purpose == "value" else []
            above = frame.f_back
            site = above and (id(above.f_code), above.f_lasti, root)
            self.add(Collective(helper.kind, reduction, helper.purpose, True, tensors), site)

    def add(self, collective: Collective, site: Any) -> None:
        """Broadcasts that one place makes one after the other, as in a loop over a state_dict, are one."""
        is_broadcast = collective.kind == "broadcast" and bool(collective.elements)
        if is_broadcast and site is not None and site == self.site and self.collectives:
            whole = self.collectives[-1]
            whole.purpose = "state"
            for dtype, elements in collective.elements.items():
                whole.add(dtype, elements)
            return
        self.collectives.append(collective)
        self.site = site if is_broadcast else None

    @_guarded
    def horovod_collective(self, kind: str, sent: Sequence[Tensor], reduction: str, root: Any, caller: Frame) -> None:
        """A function of Horovod is called by code that is no part of another collective."""
        module = _module_of(caller)
        if module == "horovod.torch.optimizer":
            if kind == "allreduce":
                self.gradients.append(Collective(kind, reduction, "gradients", True, sent))
        elif module == "horovod.torch.sync_batch_norm":
            return
        elif not (caller.f_code.co_name == "backward" and kind == "allgather" and not sent[0].is_floating_point()):
            for tensor in sent if kind not in ("broadcast", "barrier", "join", "object") else [None]:
                given = sent if tensor is None else [tensor]
                self.add(Collective(kind, reduction, "value", True, given), (id(caller.f_code), caller.f_lasti, root))

    @_guarded
    def state(self, tensors: Sequence[Tensor]) -> None:
        """Weights or an optimizer's state are given to all ranks."""
        self.add(Collective("broadcast", "", "state", True, tensors), None)

    # What is saved, and the end

    @_guarded
    def save(self, value: Any, file: Any) -> None:
        """A file is saved; what is saved into memory is no file."""
        file = getattr(file, "name", file)
        if not isinstance(file, (str, bytes, os.PathLike)):
            return
        self.site = None
        pairs = list(_named_tensors(value))
        names = [name for name, _ in pairs]
        self.saved(file, names, digests([tensor for _, tensor in pairs]) if pairs else [])

    def saved(self, file: Any, names: Sequence[str], values: Sequence[str]) -> None:
        """Tensors of these names, with these digests, were saved."""
        self._emit(
            {
                "event": "save",
                "file": os.path.basename(os.fsdecode(file)),
                "tensors": len(names),
                "keys": _digest("\n".join(names).encode()),
                "values": _digest("".join(values).encode()),
                "sample": names[:5],
            }
        )

    def _hold_buffers(self, module: Module) -> None:
        """Keep the buffers of a module that may be gone at the end; another of the same form takes its place."""
        held = {_plain(name): buffer for name, buffer in module.named_buffers()}
        if held:
            self.buffers = [
                (reference, others)
                for reference, others in self.buffers
                if reference() is not None or others.keys() != held.keys()
            ]
            self.buffers.append((weakref.ref(module), held))

    def finish(self, error: str = "") -> None:
        """Write the end, if this process has anything to end."""
        try:
            with self.lock:
                has_events = bool(self.collectives or self.gradients or self.waiting or self.initial)
                is_rank = rank_and_size() is not None and (self.is_owner or has_events)
                if not self.is_stopped and (self.file is not None or self.has_trained or is_rank):
                    self._finish(error)
        except Exception as failure:
            self.stop(f"recording stopped: {type(failure).__name__}: {failure}")
        self.is_stopped = True

    def _finish(self, error: str) -> None:
        for known in list(self.initial):
            self._number(known, [])
        if self.last is not None:
            event, parameters = self.last
            self._emit({**event, "gradients": [], "parameters": parameters()})
        self._emit(
            {
                "event": "end",
                "error": error,
                "seconds": self._seconds(),
                "buffers": self._end_buffers(),
                "collectives": self._take_collectives(),
                "lines": self.lines.seen(),
                "horovod": "horovod" in sys.modules,
            }
        )
        if self.file is not None:
            self.file.close()

    def _end_buffers(self) -> Event:
        named: dict[str, Tensor] = {}
        known: set[int] = set()
        for number, (reference, held) in enumerate(self.buffers):
            _refresh(reference, held)
            new = {name: buffer for name, buffer in held.items() if id(buffer) not in known}
            known.update(map(id, new.values()))
            named.update({f"{name} ({number})" if name in named else name: new[name] for name in new})
        found = dict(zip(named, fingerprints(list(named.values())))) if named else {}
        for framework in self.frameworks:
            found.update(framework.buffers())
        return found


def _refresh(reference: Any, held: dict[str, Tensor]) -> None:
    module = reference()
    if module is not None:
        held.update((_plain(name), buffer) for name, buffer in module.named_buffers())


def _gradients(parameters: Sequence[Tensor]) -> list[Entry | None]:
    found = iter(fingerprints([parameter.grad for parameter in parameters if parameter.grad is not None]))
    return [None if parameter.grad is None else next(found) for parameter in parameters]


def _world_size(model: Module) -> int:
    return int(sys.modules["torch"].distributed.get_world_size(model.process_group))


def _gradient_versions(model: Module) -> list[Any]:
    """What changes when a backward goes through ``model``."""
    gradients = [parameter.grad for parameter in _trainable(model)]
    return [None if gradient is None else (id(gradient), gradient._version) for gradient in gradients]


def _trainable(model: Module) -> list[Tensor]:
    ignored = getattr(model, "parameters_to_ignore", ())
    return [each for name, each in model.module.named_parameters() if each.requires_grad and name not in ignored]


def _is_tracing(torch: Any) -> bool:
    return getattr(torch._C, "_get_tracing_state", lambda: None)() is not None


def _is_capturing() -> bool:
    """Whether a CUDA graph is being captured, in which nothing may be read."""
    cuda = sys.modules["torch"].cuda
    capturing = getattr(cuda, "is_current_stream_capturing", None)
    return bool(capturing and cuda.is_initialized() and capturing())


def _run_started(now: float) -> float:
    """When the first process of this run started; its descendants inherit that."""
    return float(os.environ.setdefault("HVD_MIGRATE_STARTED", repr(now)))


# Conditions


def conditions(recorder: Recorder, size: int) -> dict[str, str]:
    """What the numbers may depend on besides the program, by name."""
    torch, numpy, seed = sys.modules.get("torch"), sys.modules.get("numpy"), recorder.options.seed
    found = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "numpy": str(getattr(numpy, "__version__", "")),
        "horovod": _horovod_version(),
        "world size": str(size),
        "seed": "" if seed is None else str(seed),
        "device": recorder.device,
    }
    for framework in recorder.frameworks:
        found.update(framework.conditions())
    if torch is not None:
        found.update(_torch_conditions(torch))
    found.update((name, value) for name, value in sorted(os.environ.items()) if ENVIRONMENT.fullmatch(name))
    return {name: value for name, value in found.items() if value}


def _torch_conditions(torch: Any) -> dict[str, str]:
    cuda, deterministic = torch.cuda, getattr(torch, "are_deterministic_algorithms_enabled", lambda: False)
    return {
        "torch": str(torch.__version__),
        "threads": str(torch.get_num_threads()),
        "deterministic": "yes" if deterministic() else "no",
        "cuda": str(torch.version.cuda or ""),
        "gpu": cuda.get_device_name() if cuda.is_available() and cuda.is_initialized() else "",
    }


def _horovod_version() -> str:
    horovod = sys.modules.get("horovod")
    if horovod is None:
        return ""
    is_stand_in = "stand_in" in os.path.normpath(getattr(horovod, "__file__", None) or "").split(os.sep)
    return "stand-in" if is_stand_in else str(getattr(horovod, "__version__", "unknown"))


def random_states() -> dict[str, str]:
    """Digests of the states of the random generators of Python and NumPy, if they are loaded."""
    random, numpy = sys.modules.get("random"), sys.modules.get("numpy")
    found = {}
    if random is not None:
        found["python"] = _digest(repr(random.getstate()).encode())
    if numpy is not None:
        state = numpy.random.get_state()
        found["numpy"] = _digest(state[1].tobytes(), repr(state[2:]).encode())
    return found


def torch_states() -> dict[str, str]:
    """Digests of the states of PyTorch's random generators."""
    torch = sys.modules["torch"]
    found = {"torch": digests([torch.get_rng_state()])[0]}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = digests([torch.cuda.get_rng_state()])[0]
    return found


# Hooks


def hook_torch(recorder: Recorder, torch: Any) -> None:
    """Hook what trains, once PyTorch is loaded."""
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)
    _hook_optimizers(recorder, torch, is_compiling)
    _hook_backward(recorder, torch, is_compiling)
    _hook_calls(recorder, torch, is_compiling)
    _hook_save(recorder, torch)
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available():
        _hook_distributed(recorder, distributed, is_compiling)
        _hook_ddp(recorder, torch.nn.parallel.DistributedDataParallel, is_compiling)


def _hook_optimizers(recorder: Recorder, torch: Any, is_compiling: Callable[[], bool]) -> None:
    base = torch.optim.Optimizer

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def step(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or recorder.is_stopped:
                return function(self, *args, **kwargs)
            has_closure = any(map(callable, (*args, *kwargs.values())))
            running = RunningStep(self, function, has_closure)
            recorder.before_step(running, sys._getframe(1))
            try:
                result = function(self, *args, **kwargs)
            finally:
                recorder.leave_step(running)
            recorder.after_step(running)
            return result

        step._hvd_migrate = True  # type: ignore[attr-defined]
        return step

    def hook(cls: type) -> None:
        function = cls.__dict__.get("step")
        if function is None or cls is base or not issubclass(cls, base) or hasattr(function, "_hvd_migrate"):
            return
        if cls.__module__.split(".")[0] == "horovod":
            return
        if getattr(function, "hooked", False) and hasattr(
            base, "profile_hook_step"
        ):  # the step's own hooks stay outside
            inner = base.profile_hook_step(wrapped(function.__wrapped__))
            inner.hooked = True
            cls.step = inner  # type: ignore[attr-defined]
        else:
            cls.step = wrapped(function)  # type: ignore[attr-defined]

    def hook_subclasses(cls: Any) -> None:
        hook(cls)
        for subclass in cls.__subclasses__():
            hook_subclasses(subclass)

    def before(name: str) -> None:
        original = getattr(base, name)

        @functools.wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            for cls in type(self).__mro__:
                hook(cls)
            return original(self, *args, **kwargs)

        setattr(base, name, method)

    hook_subclasses(base)
    before("__init__")
    before("__setstate__")


def _hook_backward(recorder: Recorder, torch: Any, is_compiling: Callable[[], bool]) -> None:
    original = torch.autograd.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or recorder.is_nested_backward():
            return original(*args, **kwargs)
        losses = recorder.before_backward(args[0] if args else kwargs.get("tensors"))
        recorder.inside.backward = True
        try:
            result = original(*args, **kwargs)
        finally:
            recorder.inside.backward = False
        recorder.after_backward(losses)
        return result

    torch.autograd.backward = backward


def _hook_calls(recorder: Recorder, torch: Any, is_compiling: Callable[[], bool]) -> None:
    original = torch.nn.Module.__call__

    @functools.wraps(original)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or recorder.inside.call or recorder.is_stopped:
            return original(self, *args, **kwargs)
        recorder.inside.call = True
        try:
            recorder.before_call(self, args, kwargs)
            return original(self, *args, **kwargs)
        finally:
            recorder.inside.call = False

    torch.nn.Module.__call__ = call


def _hook_save(recorder: Recorder, torch: Any) -> None:
    original = torch.save

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        recorder.save(args[0] if args else kwargs.get("obj"), args[1] if len(args) > 1 else kwargs.get("f"))
        return result

    torch.save = save


def _hook_distributed(recorder: Recorder, distributed: Any, is_compiling: Callable[[], bool]) -> None:
    spaces = [distributed, sys.modules.get("torch.distributed.distributed_c10d")]
    for name, (kind, sent) in DISTRIBUTED.items():
        if hasattr(distributed, name):
            function = _collective_of_torch(recorder, getattr(distributed, name), kind, sent, is_compiling)
            for space in spaces:
                if hasattr(space, name):
                    setattr(space, name, function)
    for name in ("init_process_group", "new_group"):
        function = _group_of_torch(recorder, getattr(distributed, name), name)
        for space in spaces:
            setattr(space, name, function)


def _argument(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any], name: str) -> Any:
    if name in kwargs:
        return kwargs[name]
    index = names.index(name) if name in names else len(args)
    return args[index] if index < len(args) else None


def _collective_of_torch(
    recorder: Recorder, original: Callable[..., Any], kind: str, sent: str, is_compiling: Callable[[], bool]
) -> Callable[..., Any]:
    signature = inspect.signature(original).parameters
    names = list(signature)
    default = signature["op"].default if "op" in signature else None

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or recorder.inside.collective or recorder.is_stopped:
            return original(*args, **kwargs)
        tensors = list(_tensors([_argument(names, args, kwargs, sent)])) if sent else []
        op = _argument(names, args, kwargs, "op")
        root = _argument(names, args, kwargs, "src")
        recorder.torch_collective(
            original.__name__, kind, tensors, default if op is None else op, root, sys._getframe(1)
        )
        recorder.inside.collective = True
        try:
            return original(*args, **kwargs)
        finally:
            recorder.inside.collective = False

    return collective


def _group_of_torch(recorder: Recorder, original: Callable[..., Any], name: str) -> Callable[..., Any]:
    names = list(inspect.signature(original).parameters)

    @functools.wraps(original)
    def group(*args: Any, **kwargs: Any) -> Any:
        backend = recorder.options.backend
        if backend and (name == "init_process_group" or _argument(names, args, kwargs, "backend") is not None):
            index = names.index("backend")
            if len(args) > index:
                args = (*args[:index], backend, *args[index + 1 :])
            else:
                kwargs["backend"] = backend
            kwargs.pop("device_id", None)
        was, recorder.inside.collective = recorder.inside.collective, True
        try:
            return original(*args, **kwargs)
        finally:
            recorder.inside.collective = was

    return group


def _hook_ddp(recorder: Recorder, ddp: Any, is_compiling: Callable[[], bool]) -> None:
    construct, forward = ddp.__init__, ddp.forward

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        was, recorder.inside.collective = recorder.inside.collective, True
        try:
            construct(self, *args, **kwargs)
        finally:
            recorder.inside.collective = was
        recorder.state([*self.module.parameters(), *self.module.buffers()])

    @functools.wraps(forward)
    def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not is_compiling():
            recorder.before_ddp_forward(self)
        return forward(self, *args, **kwargs)

    ddp.__init__, ddp.forward = __init__, run


def hook_horovod(recorder: Recorder, horovod: Any) -> None:
    """Hook the collectives of ``horovod.torch``, Horovod's own or the stand-in's, wherever they are named."""
    operations = sys.modules.get("horovod.torch.mpi_ops", horovod)
    reductions = {
        getattr(operations, name): name.lower()
        for name in ("Average", "Sum", "Adasum", "Min", "Max", "Product")
        if hasattr(operations, name)
    }
    replaced: dict[int, Callable[..., Any]] = {}
    for name, function in list(vars(operations).items()):
        match = HOROVOD.fullmatch(name)
        kind = match[2] if match else name if name in ("join", "barrier") else ""
        if kind and callable(function):
            replaced[id(function)] = _collective_of_horovod(recorder, function, kind, reductions)
    for name in ("broadcast_object", "allgather_object", "broadcast_parameters", "broadcast_optimizer_state"):
        function = getattr(horovod, name, None)
        if function is not None:
            kind = "object" if name.endswith("object") else name
            replaced[id(function)] = _collective_of_horovod(recorder, function, kind, reductions)
    for name, module in list(sys.modules.items()):
        if (name + ".").startswith("horovod.") and isinstance(module, types.ModuleType):
            for attribute, value in list(vars(module).items()):
                if id(value) in replaced:
                    setattr(module, attribute, replaced[id(value)])


def _collective_of_horovod(
    recorder: Recorder, original: Callable[..., Any], kind: str, reductions: Mapping[Any, str]
) -> Callable[..., Any]:
    names = list(inspect.signature(original).parameters)

    def note(args: tuple[Any, ...], kwargs: dict[str, Any], caller: Frame) -> None:
        given = functools.partial(_argument, names, args, kwargs)
        if kind == "broadcast_optimizer_state":
            recorder.state([])
        elif kind == "broadcast_parameters":
            recorder.state(list(_tensors([given("params")])))
        else:
            sent = list(_tensors([given("tensor"), given("tensors")])) if kind != "object" else []
            recorder.horovod_collective(kind, sent, reduction(given), given("root_rank"), caller)

    def reduction(given: Callable[[str], Any]) -> str:
        if kind not in ("allreduce", "reducescatter"):
            return ""
        op, average = given("op"), given("average")
        if op is None:
            return "sum" if average is False else "average"
        return reductions.get(op, "")

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if recorder.inside.collective or recorder.is_stopped:
            return original(*args, **kwargs)
        with contextlib.suppress(Exception):  # arguments that Horovod will refuse
            note(args, kwargs, sys._getframe(1))
        recorder.inside.collective = True
        try:
            return original(*args, **kwargs)
        finally:
            recorder.inside.collective = False

    return collective


class ImportHooks:
    """Calls a function with a module once that has been imported; stands first in ``sys.meta_path``."""

    def __init__(self, actions: Mapping[str, Callable[[Any], None]]) -> None:
        self._actions = dict(actions)

    def install(self) -> None:
        """Act on what is imported already, and wait for the rest."""
        for name in list(self._actions):
            if name in sys.modules:
                self._actions.pop(name)(sys.modules[name])
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module as the others do, and have it hooked once it has run."""
        if name not in self._actions:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    self._prepare(name, spec.loader)
                    return spec
        return None

    def _prepare(self, name: str, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)

        def exec_module(module: types.ModuleType) -> None:
            del loader.exec_module
            execute(module)  # type: ignore[misc]
            action = self._actions.pop(name, None)
            if action is not None:
                action(module)

        with contextlib.suppress(AttributeError):
            loader.exec_module = exec_module


# Lines that ran


class Lines:
    """Which lines of some files were executed."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files: dict[str, set[int]] = {path: set() for path in files}
        self._real = {os.path.realpath(path): path for path in self._files}
        self._by_name: dict[str, set[int] | None] = {}
        self._origins: dict[str, dict[int, tuple[str, int]]] = {}
        self._left: dict[int, tuple[types.CodeType, set[int]]] = {}

    def start(self) -> None:
        """Watch the lines, where nobody else does."""
        if not self._files:
            return
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is not None:
            self._monitor(monitoring)
        elif sys.gettrace() is None:
            sys.settrace(self._call)
            threading.settrace(self._call)
        else:
            print("hvd-migrate recorder: lines are not recorded, because something else traces them", file=sys.stderr)

    def seen(self) -> dict[str, list[int]]:
        """The lines that ran, by file."""
        return {path: sorted(lines) for path, lines in self._files.items()}

    def add_origins(self, origins: Mapping[tuple[str, int], tuple[str, int]]) -> None:
        """Tell which lines of files the lines of files that were made from them stand for."""
        for (made, line), origin in origins.items() if self._files else ():
            self._origins.setdefault(made, {})[line] = origin

    def _see(self, name: str, number: int) -> None:
        if number in self._origins.get(name, ()):
            name, number = self._origins[name][number]
        lines = self._of(name)
        if lines is not None:
            lines.add(number)

    def _of(self, name: str) -> set[int] | None:
        if name not in self._by_name:
            path = self._real.get(os.path.realpath(name))
            self._by_name[name] = None if path is None else self._files[path]
        return self._by_name[name]

    def _monitor(self, monitoring: Any) -> None:
        tool = next(each for each in (4, 3, 5, 1, 0) if monitoring.get_tool(each) is None)

        def line(code: types.CodeType, number: int) -> Any:
            self._see(code.co_filename, number)
            return monitoring.DISABLE

        monitoring.use_tool_id(tool, "hvd-migrate")
        monitoring.register_callback(tool, monitoring.events.LINE, line)
        monitoring.set_events(tool, monitoring.events.LINE)

    def _call(self, frame: Frame, event: str, argument: Any) -> Any:
        """Trace a call, if it runs a file that is asked for and has lines that have not been seen."""
        code = frame.f_code
        if code.co_filename not in self._origins and self._of(code.co_filename) is None:
            return None
        if id(code) not in self._left:
            self._left[id(code)] = code, {line for _, line in dis.findlinestarts(code) if line is not None}
        left = self._left[id(code)][1]
        if not left:
            return None

        def local(frame: Frame, event: str, argument: Any) -> Any:
            if event == "line":
                self._see(code.co_filename, frame.f_lineno)
                left.discard(frame.f_lineno)
            return local

        return local


# Start


_recorder: Recorder | None = None  # one for a process: hooks stay where they are


def install(
    folder: str,
    every: int = 1,
    first: int | None = None,
    seed: int | None = None,
    is_deterministic: bool = False,
    lines: Sequence[str] = (),
    backend: str = "",
    limit: int = LIMIT,
) -> Recorder:
    """Record this process into ``folder``; its rank and size are read from the environment at the first event."""
    return start(Options(str(folder), every, first, seed, is_deterministic, lines, backend, limit), is_owner=True)


def start(options: Options, is_owner: bool) -> Recorder:
    """Set hooks, and seeds if they are asked for."""
    global _recorder
    if _recorder is not None:
        _recorder.options = options
        _recorder.restart(is_owner)
        return _recorder
    _recorder = recorder = Recorder(options, is_owner)
    sys.modules.setdefault("hvd_migrate_recorder", sys.modules[__name__])  # by that name its other part finds this one
    if options.is_deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    actions: dict[str, Callable[[Any], None]] = {
        "numpy": functools.partial(_when_numpy, recorder),
        "torch": functools.partial(_when_torch, recorder),
        "tensorflow": functools.partial(_when_tensorflow, recorder),
        "horovod.torch": functools.partial(hook_horovod, recorder),
    }
    _seed(recorder, "random")
    ImportHooks({name: _tolerant(recorder, action) for name, action in actions.items()}).install()
    _hook_exit(recorder)
    recorder.lines.start()
    return recorder


def finish(error: str = "") -> None:
    """Write the end of this process's trace; only a process that leaves unseen needs to call it."""
    if _recorder is not None:
        _recorder.finish(error)


def _tolerant(recorder: Recorder, action: Callable[[Any], None]) -> Callable[[Any], None]:
    def tolerant(module: Any) -> None:
        try:
            action(module)
        except Exception as error:
            recorder.stop(f"recording stopped: {type(error).__name__}: {error}")

    return tolerant


def _when_numpy(recorder: Recorder, numpy: Any) -> None:
    _seed(recorder, "numpy")


def _when_torch(recorder: Recorder, torch: Any) -> None:
    _seed(recorder, "torch")
    if recorder.options.is_deterministic:
        _be_deterministic(torch)
    hook_torch(recorder, torch)


def _when_tensorflow(recorder: Recorder, tensorflow: Any) -> None:
    _seed(recorder, "tensorflow")
    if recorder.options.is_deterministic and recorder.options.seed is not None:  # it refuses to draw without a seed
        tensorflow.config.experimental.enable_op_determinism()
    try:
        if recorder.options.folder:
            _beside("recorder_tensorflow").hook(recorder, tensorflow)
    except Exception as error:  # what trains may be PyTorch, with TensorFlow beside it
        print("hvd-migrate recorder: TensorFlow is not recorded:", error, file=sys.stderr)


def _beside(name: str) -> Any:
    """Load a part of the recorder from the file that lies beside this one."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"hvd_migrate_{name}", path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def _be_deterministic(torch: Any) -> None:
    """Do as torch.use_deterministic_algorithms does, which would import the compiler, and that takes a second."""
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    os.environ.setdefault("TORCHINDUCTOR_DETERMINISTIC", "1")
    use = getattr(torch, "use_deterministic_algorithms", None)
    if use is not None and "warn_only" in inspect.signature(use).parameters:
        torch._C._set_deterministic_algorithms(True, warn_only=True)


def _seed(recorder: Recorder, name: str) -> None:
    if recorder.options.seed is None:
        return
    seed = recorder.options.seed + (rank_and_size() or (0, 1))[0]
    if name == "random":
        import random

        random.seed(seed)
    elif name == "numpy" and name in sys.modules:
        sys.modules[name].random.seed(seed % 2**32)
    elif name == "torch" and name in sys.modules:
        sys.modules[name].manual_seed(seed)
    elif name == "tensorflow" and name in sys.modules:
        sys.modules[name].random.set_seed(seed)  # Keras draws the seeds of its layers from Python's generator


def _hook_exit(recorder: Recorder) -> None:
    """End the trace when the process ends, also one that was forked and leaves without ceremony."""
    leave = os._exit

    @functools.wraps(leave)
    def _exit(*args: Any, **kwargs: Any) -> Any:
        status = args[0] if args else kwargs.get("status", 0)
        recorder.finish(recorder.error or (f"exit status {status}" if status else ""))
        return leave(*args, **kwargs)

    def at_exit() -> None:
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        recorder.finish(recorder.error or ("" if error is None else _describe_error(error)))

    os._exit = _exit
    atexit.register(at_exit)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functools.partial(_be_forked, recorder))


def _be_forked(recorder: Recorder) -> None:
    """Begin anew in a process that was just forked, with seeds of its own if that was done to make it a rank."""
    place = recorder.place
    recorder.restart(is_owner=False)
    if recorder.place != place:
        for name in ("random", "numpy", "torch", "tensorflow"):
            _seed(recorder, name)


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2000]


def start_from_environment() -> None:
    """Do what the HVD_MIGRATE_* variables ask for; for a ``sitecustomize``."""
    is_owner = "HVD_MIGRATE_STARTED" not in os.environ
    options = Options.from_environment(os.environ)
    if options.wants_anything():
        start(options, is_owner)


def main(arguments: Sequence[str]) -> None:
    """Run a program and record it."""
    parser = argparse.ArgumentParser(description="Run a training program and record what it computes.")
    parser.add_argument("--output", required=True, help="folder of the trace")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="keep the tensors of every Nth step")
    parser.add_argument("--first", type=int, metavar="N", help="keep the tensors of the first N steps only")
    parser.add_argument("--limit", type=int, default=LIMIT // 2**20, metavar="MIB", help="keep no tensors beyond")
    parser.add_argument("--seed", type=int, help="seed random generators with this number plus the rank")
    parser.add_argument("--deterministic", action="store_true", help="use deterministic algorithms")
    parser.add_argument("--lines", default="", metavar="FILE", help="JSON list of files whose executed lines to keep")
    parser.add_argument("--backend", default="", help="backend of torch.distributed, whatever the program asks for")
    parser.add_argument("-m", dest="is_module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    lines = _read_list(given.lines)
    folder = os.path.abspath(given.output)
    options = Options(
        folder, given.every, given.first, given.seed, given.deterministic, lines, given.backend, given.limit * 2**20
    )
    recorder = start(options, is_owner=True)
    run(recorder, given.program, given.arguments, given.is_module)


def run(recorder: Recorder, program: str, arguments: Sequence[str], is_module: bool) -> None:
    """Run a program as Python would, and show its errors as Python would: without the frames of this file."""
    sys.argv = [program, *arguments]
    try:
        if is_module:
            sys.path[0] = os.getcwd()
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        elif os.path.isdir(program):
            runpy.run_path(program, run_name="__main__")
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(program))
            _run_file(program)
    except SystemExit as error:
        if error.code not in (None, 0):
            recorder.error = _describe_error(error)
        raise
    except Exception as error:
        recorder.error = _describe_error(error)
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_frame.f_globals is globals():
            traceback = traceback.tb_next
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
        sys.exit(1)


def _run_file(program: str) -> None:
    path = os.path.abspath(program)
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    sys.modules["__main__"] = module  # for good: what runs at exit looks for it too
    exec(code, module.__dict__)


if __name__ == "__main__":
    main(sys.argv[1:])
