"""The GPUs that programs started here would see, found without PyTorch."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from itertools import takewhile


def visible_gpus(environment: Mapping[str, str]) -> int:
    """How many GPUs a process with this environment may use."""
    installed = _installed()
    if "CUDA_VISIBLE_DEVICES" not in environment:
        return installed
    names = [name.strip() for name in environment["CUDA_VISIBLE_DEVICES"].split(",")]
    return min(installed, len(list(takewhile(lambda name: name not in ("", "-1"), names))))


def _installed() -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=True)
        return sum(line.startswith("GPU ") for line in asked.stdout.splitlines())
    return 0
