"""Run Python source on TensorFlow workers, forked from a process that has imported TensorFlow already.

The tests talk to that process, so that they need not import it themselves: a line of JSON for each program.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol

from forking import Rank, run_forked

from migrator.parity.ports import held_ports

Keras = Literal["2", "3"]
FIXED = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "2",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
LIMIT = 180.0


class Run(Protocol):
    """Runs a program on workers, in a folder that must not exist yet."""

    def __call__(self, source: str, folder: Path, size: int = 2) -> list[Rank]: ...


@contextlib.contextmanager
def workers(keras: Keras) -> Iterator[Run]:
    """What runs programs with one release of Keras."""
    legacy = {"TF_USE_LEGACY_KERAS": "1"} if keras == "2" else {}
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    with subprocess.Popen(
        [sys.executable, __file__],
        env={**environment, **FIXED, **legacy},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin
        assert server.stdout
        requests, answers = server.stdin, server.stdout

        def run(source: str, folder: Path, size: int = 2) -> list[Rank]:
            print(json.dumps([source, str(folder), size]), file=requests, flush=True)
            return [Rank(*each) for each in json.loads(answers.readline())]

        yield run
        requests.close()


def serve() -> None:
    """Answer requests until there are no more."""
    import tensorflow as tf

    _ = tf.keras.layers.Dense, tf.keras.optimizers.SGD  # Keras is loaded late, here once and not in every worker
    for line in sys.stdin:
        source, folder, size = json.loads(line)
        ranks = _run(source, Path(folder), size)
        print(json.dumps([[each.status, each.seconds, each.out, each.err] for each in ranks]), flush=True)


def _run(source: str, folder: Path, size: int) -> list[Rank]:
    work = folder / "work"
    work.mkdir(parents=True)
    path = work / "program.py"  # AutoGraph reads functions from their file
    path.write_text(source, "utf-8")

    def program() -> None:
        warnings.simplefilter("default")
        module = types.ModuleType("__main__")
        module.__file__ = str(path)
        sys.modules["__main__"] = module
        exec(compile(source, path, "exec"), module.__dict__)

    with held_ports(size + 1) as (master, *ports):
        workers = [f"127.0.0.1:{port}" for port in ports]
        environments = [{**os.environ, **_variables(index, workers, master)} for index in range(size)]
        return run_forked(program, environments, work, folder, LIMIT)


def _variables(index: int, workers: list[str], port: int) -> dict[str, str]:
    places = {"RANK": index, "LOCAL_RANK": index, "WORLD_SIZE": len(workers), "LOCAL_WORLD_SIZE": len(workers)}
    places |= {"MASTER_PORT": port}
    config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
    return {
        "TF_CONFIG": json.dumps(config),
        "MASTER_ADDR": "127.0.0.1",
        **{name: str(value) for name, value in places.items()},
    }


if __name__ == "__main__":
    serve()
