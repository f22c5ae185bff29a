"""Small functions that Horovod's modules share."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

Element = TypeVar("Element")


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Nothing had to be built."""


def check_installed_version(name: str, version: str, exception: Exception | None = None) -> None:
    """Any version will do."""


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether Horovod supports this framework."""
    return ext_base_name in ("torch", "tensorflow", "keras")


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether there is a GPU for this framework."""
    framework = sys.modules.get(ext_base_name)
    if framework is None:
        return False
    return bool(framework.cuda.is_available() if ext_base_name == "torch" else framework.test.is_built_with_cuda())


def mpi_built(verbose: bool = False) -> bool:
    return False


def gloo_built(verbose: bool = False) -> bool:
    return True


def nccl_built(verbose: bool = False) -> int:
    torch = sys.modules.get("horovod.torch.mpi_ops")
    return 0 if torch is None else int(torch.nccl_built())


def ddl_built(verbose: bool = False) -> bool:
    return False


def ccl_built(verbose: bool = False) -> bool:
    return False


@contextlib.contextmanager
def env(**kwargs: str | None) -> Iterator[None]:
    """Set environment variables for a while; those that are None stay as they are."""
    before = {name: os.environ.get(name) for name, value in kwargs.items() if value is not None}
    os.environ.update({name: value for name, value in kwargs.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[int | None, bool | None], int]:
    """The function that makes one reduction of the new ``op`` and the old ``average``."""

    def choose(op: int | None, average: bool | None) -> int:
        if op is not None and average is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        if average is None:
            return int(reduce_ops.Average if op is None else op)
        message = "Parameter `average` has been replaced with `op` and will be removed in v1.0"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return int(reduce_ops.Average if average else reduce_ops.Sum)

    return choose


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether Adasum can reduce over so many ranks."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(elements: Sequence[Element], n: int) -> list[Sequence[Element]]:
    """Cut a list into ``n`` parts of about the same length."""
    shorter, longer = divmod(len(elements), n)
    starts = [i * shorter + min(i, longer) for i in range(n + 1)]
    return [elements[start:end] for start, end in zip(starts, starts[1:])]


def is_iterable(x: object) -> bool:
    """Whether ``iter`` takes it."""
    try:
        iter(x)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Compare versions of three numbers."""
    numbers = [[int(part) for part in version.split("+")[0].split(".")[:3]] for version in (ver, target)]
    return numbers[0] >= numbers[1]
