"""The optimizer that reduces gradients while ``backward`` computes them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Union

import torch

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import split_list
from horovod.torch.compression import Compression, Compressor
from horovod.torch.functions import broadcast_object
from horovod.torch.mpi_ops import (
    Adasum,
    Average,
    Sum,
    allreduce_async_,
    grouped_allreduce_async_,
    rocm_built,
    size,
    sparse_allreduce_async,
    synchronize,
)

__all__ = ["DistributedOptimizer", "Sum"]

Parameter = torch.Tensor
Group = tuple[Parameter, ...]
Pending = Union[int, Callable[[], torch.Tensor], None]
TOO_MANY_BACKWARDS = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). "
    "Increase backward_passes_per_step to accumulate gradients locally."
)
ZERO_GRAD_TOO_EARLY = (
    "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(). "
    "This is prohibited as it can cause a race condition."
)
SYNCHRONIZED_TWICE = (
    "optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(). "
    "This can cause training slowdown. You may want to consider using optimizer.skip_synchronize() context if you use "
    "optimizer.synchronize() in your code."
)


class _DistributedOptimizer(torch.optim.Optimizer):
    """What is put before the class of the wrapped optimizer: its own methods, by the names that Horovod's have."""

    def __init__(
        self,
        params: Any,
        named_parameters: Iterable[tuple[str, Parameter]] | None,
        compression: type[Compressor],
        backward_passes_per_step: int = 1,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        groups: int | Sequence[Sequence[Parameter]] | None = None,
        sparse_as_dense: bool = False,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super(self.__class__, self).__init__(params)
        self._compression = compression
        named = _checked_names(named_parameters, self.param_groups, "allreduce.noname.{group}.{index}")
        self._parameter_names = {p: name for name, p in sorted(named, key=lambda pair: pair[0])}
        self.backward_passes_per_step = backward_passes_per_step
        self._allreduce_delay = dict.fromkeys(self._parameter_names, backward_passes_per_step)
        self.op = op
        self.gradient_predivide_factor = gradient_predivide_factor
        self.sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self._handles: dict[Any, tuple[Pending, Any]] = {}
        self._grad_accs: list[Any] = []
        self._requires_update: set[Parameter] = set()
        self._synchronized = False
        self._should_synchronize = True
        _check_groups(groups)
        self._groups = groups
        self._p_to_group: dict[Parameter, Group] = {}
        self._group_counts: dict[Group, int] = {}
        if process_set.included() and (size() > 1 or os.environ.get("HOROVOD_ELASTIC") == "1"):
            self._register_hooks()

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._handles = {}
        self._synchronized = False
        self._should_synchronize = True
        self.set_backward_passes_per_step(self.backward_passes_per_step)
        super(self.__class__, self).load_state_dict(*args, **kwargs)

    @staticmethod
    def find_duplicates(lst: Iterable[str]) -> set[str]:
        """The elements that are there more than once."""
        seen: set[str] = set()
        return {one for one in lst if one in seen or seen.add(one)}  # type: ignore[func-returns-value]

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Reduce after so many backward passes from now on."""
        self.backward_passes_per_step = passes
        self._allreduce_delay = dict.fromkeys(self._allreduce_delay, passes)

    def _register_hooks(self) -> None:
        trained = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        if self._groups is not None:
            self._form_groups(trained)
        for p in trained:
            self._requires_update.add(p)
            accumulator = p.expand_as(p).grad_fn.next_functions[0][0]
            accumulator.register_hook(self._make_hook(p))
            self._grad_accs.append(accumulator)

    def _form_groups(self, trained: Sequence[Parameter]) -> None:
        names = [self._parameter_names[p] for p in trained]
        order = broadcast_object(names, root_rank=0, process_set=self.process_set)
        trained = sorted(trained, key=lambda p: order.index(self._parameter_names[p]))
        for group in _split_into_groups(trained, self._groups):
            self._group_counts[group] = 0
            self._p_to_group.update(dict.fromkeys(group, group))

    def _allreduce_grad_async(self, p: Parameter) -> tuple[Pending, Any]:
        if p.grad is None:
            p.grad = torch.zeros_like(p.data)
        name = self._parameter_names[p]
        gradient = p.grad
        if gradient.is_sparse and not self.sparse_as_dense:
            return sparse_allreduce_async(gradient, name=name, op=self.op, process_set=self.process_set), None
        small, ctx = self._compression.compress(gradient.to_dense() if gradient.is_sparse else gradient)
        divisor = self.gradient_predivide_factor if self.op == Average else 1.0
        handle = allreduce_async_(
            small,
            name=name,
            op=self.op,
            prescale_factor=1.0 / divisor,
            postscale_factor=divisor,
            process_set=self.process_set,
        )
        return handle, ctx

    def _grouped_allreduce_grad_async(self, group: Group) -> tuple[Pending, Any]:
        name = self._parameter_names[group[0]]
        small, ctxs = zip(*[self._compression.compress(p.grad) for p in group])
        return grouped_allreduce_async_(small, name=name, op=self.op, process_set=self.process_set), ctxs

    def _make_hook(self, p: Parameter) -> Callable[..., None]:
        def hook(*ignore: Any) -> None:
            if self._handles.get(p, (None,))[0] is not None and self._allreduce_delay[p] <= 0:
                raise AssertionError(TOO_MANY_BACKWARDS)
            assert not p.grad.requires_grad
            assert self._allreduce_delay[p] > 0
            self._allreduce_delay[p] -= 1
            pending: tuple[Pending, Any] = (None, None)
            if self._allreduce_delay[p] == 0:
                if self._groups is None:
                    pending = self._allreduce_grad_async(p)
                elif self._complete_group(self._p_to_group[p]):
                    return
            self._handles[p] = pending

        return hook

    def _complete_group(self, group: Group) -> bool:
        """Count one more gradient; start the reduction if it was the last of its group."""
        self._group_counts[group] += 1
        if self._group_counts[group] < len(group):
            return False
        self._handles[group] = self._grouped_allreduce_grad_async(group)
        for p in group:
            self._handles.pop(p, None)
        self._group_counts[group] = 0
        return True

    def synchronize(self) -> None:
        """Wait until all gradients are reduced; those that no backward pass computed count as zero."""
        if self.process_set.included():
            started = {p for key in self._handles for p in (key if isinstance(key, tuple) else (key,))}
            for p in self._requires_update - started:
                self._handles[p] = (None, None)
            for key, (handle, _) in list(self._handles.items()):
                if handle is None:
                    self._handles[key] = self._allreduce_grad_async(key)
            for key, pending in self._handles.items():
                if isinstance(key, tuple):
                    self._finish_group(key, *pending)
                else:
                    self._finish(key, *pending)
            self._handles.clear()
        self._synchronized = True

    def _finish_group(self, group: Group, handle: Pending, ctxs: Any) -> None:
        for p, output, ctx in zip(group, synchronize(handle), ctxs):
            self._allreduce_delay[p] = self.backward_passes_per_step
            p.grad.set_(self._compression.decompress(output, ctx))
        self._group_counts[group] = 0

    def _finish(self, p: Parameter, handle: Pending, ctx: Any) -> None:
        output = handle() if callable(handle) else synchronize(handle)
        self._allreduce_delay[p] = self.backward_passes_per_step
        if self._groups is not None:
            self._group_counts[self._p_to_group[p]] = 0
        reduced = self._compression.decompress(output, ctx)
        if p.grad.is_sparse:
            p.grad.zero_().add_(reduced if reduced.is_sparse else reduced.to_sparse())
        else:
            p.grad.set_(reduced)

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Steps within do not reduce: ``synchronize`` has been called."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(SYNCHRONIZED_TWICE, stacklevel=2)
            self.synchronize()
        self._synchronized = False
        return super(self.__class__, self).step(closure)

    def zero_grad(self) -> None:
        if self._handles:
            raise AssertionError(ZERO_GRAD_TOO_EARLY)
        super(self.__class__, self).zero_grad()


class _DistributedAdasumOptimizer(torch.optim.Optimizer):
    """Fails as Horovod's does in a build with Gloo alone, which has no Adasum."""

    def __init__(
        self,
        params: Any,
        named_parameters: Iterable[tuple[str, Parameter]] | None,
        compression: type[Compressor],
        backward_passes_per_step: int = 1,
    ) -> None:
        super(self.__class__, self).__init__(params)
        self._compression = compression
        named = _checked_names(named_parameters, self.param_groups, "allreduce.noname.{index}")
        self._parameter_names = {p: name for name, p in named}
        self.backward_passes_per_step = backward_passes_per_step
        self._handles: dict[Parameter, int] = {}
        for p in self._parameter_names:
            if p.requires_grad:
                p.grad = torch.zeros_like(p.data)
                p.register_hook(self._make_hook(p))

    def set_backward_passes_per_step(self, passes: int) -> None:
        self.backward_passes_per_step = passes

    def _make_hook(self, p: Parameter) -> Callable[[torch.Tensor], None]:
        def hook(gradient: torch.Tensor) -> None:
            small, _ = self._compression.compress(gradient)
            self._handles[p] = allreduce_async_(small, name=self._parameter_names[p], op=Adasum)

        return hook

    def synchronize(self) -> None:
        pass

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")
        yield

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None if closure is None else closure()
        for handle in self._handles.values():
            synchronize(handle)
        self._handles.clear()
        return loss

    def zero_grad(self) -> None:
        if self._handles:
            raise AssertionError(ZERO_GRAD_TOO_EARLY)
        super(self.__class__, self).zero_grad()


def _checked_names(
    named_parameters: Iterable[tuple[str, Parameter]] | None, groups: Sequence[dict[str, Any]], nameless: str
) -> list[tuple[str, Parameter]]:
    """The parameters with their names; raises ValueError where they do not name each parameter once."""
    if named_parameters is None:
        return [
            (nameless.format(group=i, index=j), p)
            for i, group in enumerate(groups)
            for j, p in enumerate(group["params"])
        ]
    named = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in named):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), "
            "usually produced by model.named_parameters()."
        )
    if duplicates := _DistributedOptimizer.find_duplicates(name for name, _ in named):
        raise ValueError(
            f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(duplicates)}"
        )
    unnamed = {id(p) for group in groups for p in group["params"]} - {id(p) for _, p in named}
    if unnamed:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named. "
            f"Python object ids: {', '.join(map(str, unnamed))}"
        )
    return named


def _check_groups(groups: int | Sequence[Sequence[Parameter]] | None) -> None:
    if groups is None:
        return
    if not isinstance(groups, list):
        if not groups > 0:  # type: ignore[operator]
            raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
        return
    seen: set[int] = set()
    for p in (p for group in groups for p in group):
        if not isinstance(p, torch.Tensor):
            raise ValueError("groups must consist of torch.Tensor.")
        if id(p) in seen:
            raise ValueError("A parameter can only appear once in groups.")
        seen.add(id(p))


def _split_into_groups(trained: Sequence[Parameter], groups: Any) -> list[Group]:
    if not isinstance(groups, list):
        return [tuple(part) for part in split_list(trained, groups)]
    ids = {id(p) for p in trained}
    listed = [tuple(p for p in group if id(p) in ids) for group in groups]
    grouped = {id(p) for group in listed for p in group}
    return [*listed, *((p,) for p in trained if id(p) not in grouped)]


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, Parameter]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Parameter]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return an optimizer over the same parameter groups that reduces gradients; the state of the given one is lost."""
    if gradient_predivide_factor != 1.0:
        if rocm_built():
            raise ValueError("gradient_predivide_factor not supported yet with ROCm")
        if op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups != 0:
        message = "Parameter `num_groups` has been replaced by `groups` and will be removed in v0.23.0."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    base = type(optimizer)
    options: list[Any] = [optimizer.param_groups, named_parameters, compression, backward_passes_per_step]
    if op == Adasum and size() > 1:
        if process_set != global_process_set:
            raise NotImplementedError("Adasum does not support non-global process sets yet.")
        return type(base.__name__, (base,), dict(_DistributedAdasumOptimizer.__dict__))(*options)
    options += [op, gradient_predivide_factor, groups, sparse_as_dense, process_set]
    return type(base.__name__, (base,), dict(_DistributedOptimizer.__dict__))(*options)
