"""Migrated TensorFlow programs against what real Horovod 0.28.1 made of the originals with TensorFlow and Keras 2.15.

The release of TensorFlow that the migrated programs run with is another, and may round otherwise; so may another
processor. What does not depend on rounding is held to be the same.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from record_parity_programs import SEED
from record_tensorflow_programs import PROGRAMS, TRACES
from tensorflow_workers import FIXED, Keras, workers
from test_helpers import SOURCES
from test_parity_programs import HOROVOD

from migrator.config import Settings
from migrator.engine import migrate_text
from migrator.helpers import helper_source
from migrator.parity import recorder
from migrator.parity.compare import Side, compare
from migrator.parity.comparison import Comparison
from migrator.parity.launch import STAND_IN
from migrator.parity.trace import Collective, Rank, read_trace

sys.modules.setdefault("hvd_migrate_recorder", recorder)
from migrator.parity import recorder_tensorflow  # noqa: E402
from migrator.parity.recorder_tensorflow import DOCSTRINGS, HELPERS  # noqa: E402

CLOSE = 1e-6
ROUNDED = {"loss", "gradient", "weights", "parameter", "buffer", "checkpoint-values", "drift"}
PROGRAM_NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))
# What keeps a program from being compared with one release of Keras.
OTHERWISE: dict[tuple[str, Keras], str] = {
    ("plain_keras", "2"): "it imports keras, which is Keras 3 where tf_keras is Keras 2",
}
RUNS: list[tuple[str, Keras]] = [
    (name, keras) for name in PROGRAM_NAMES for keras in ("2", "3") if (name, keras) not in OTHERWISE
]
RECORDED = """
from migrator.parity.recorder import install
install({folder!r}, seed={seed}, is_deterministic=True)
del install
{source}
"""
# Those that are also run with the stand-in, as the command does where there is no Horovod.
STOOD_IN: list[tuple[str, Keras]] = [
    ("accumulation_sum", "2"),
    ("batch_norm", "2"),
    ("collectives", "2"),
    ("embedding", "2"),
    ("fit_momentum", "3"),
    ("tape", "3"),
]
Train = Callable[[str, Keras, Path], Side]
Migrated = Callable[[str, Keras], Side]


@pytest.fixture(scope="module")
def train() -> Iterator[Train]:
    """What the workers of a source record."""
    with contextlib.ExitStack() as stack:
        started = cache(lambda keras: stack.enter_context(workers(keras)))

        def of(source: str, keras: Keras, folder: Path) -> Side:
            text = RECORDED.format(folder=str(folder / "trace"), seed=SEED, source=source)
            ranks = started(keras)(text, folder)
            assert [rank.err for rank in ranks if rank.status or "hvd-migrate recorder" in rank.err] == []
            return Side(read_trace(folder / "trace"))

        yield of


@pytest.fixture(scope="module")
def ours(train: Train, tmp_path_factory: pytest.TempPathFactory) -> Migrated:
    """What the workers of a program that was migrated record, run once."""

    @cache
    def of(name: str, keras: Keras) -> Side:
        return train(migrated(name, keras), keras, tmp_path_factory.mktemp(f"{name}-{keras}") / "ranks")

    return of


def migrated(name: str, keras: Keras) -> str:
    """A program after its migration."""
    source = (PROGRAMS / f"{name}.py").read_bytes()
    (file,) = migrate_text(f"{name}.py", source, Settings(keras=keras, jobs=1)).files
    return file.after.decode()


def real(name: str) -> Side:
    """What the ranks of a program recorded under real Horovod."""
    return Side(read_trace(TRACES / name))


def farthest(found: Comparison) -> float:
    """The largest relative distance of losses, or infinity if something else than rounding differs."""
    if {each.kind for each in found.differences} - ROUNDED or found.extent.ranks != 2:
        return math.inf
    return max((math.inf if step.loss is None else step.loss for step in found.steps), default=0.0)


def does(rank: Rank) -> list[object]:
    """What a rank does that neither rounding nor the release of Keras changes."""
    assert rank.end is not None
    calls = [*(each for step in rank.steps for each in step.collectives), *rank.end.collectives]
    return [
        (rank.rank, rank.size, rank.end.error),
        [(each.type, [(one.shape, one.dtype) for one in each.parameters]) for each in rank.optimizers],
        [(step.optimizer, step.rates, step.backwards, step.batch) for step in rank.steps],
        [(kind(each), each.reduction, each.dtype, each.elements) for each in calls if each.purpose == "value"],
        [(each.file, each.tensors, each.keys) for each in rank.saves],
        list(rank.end.buffers),
    ]


def kind(collective: Collective) -> str:
    """What a collective is with TensorFlow, where ranks keep their rows of a reduced tensor."""
    return collective.kind.replace("reducescatter", "allreduce")


@pytest.mark.ranks
@pytest.mark.parametrize(("name", "keras"), RUNS)
def test_a_migrated_program_trains_as_real_horovod(name: str, keras: Keras, ours: Migrated) -> None:
    found = compare(real(name), ours(name, keras))
    assert farthest(found) <= CLOSE, found.sentence
    assert [each for each in found.reasons if not each.is_expected] == []
    assert [does(rank) for rank in ours(name, keras).trace.ranks] == [does(rank) for rank in real(name).trace.ranks]


@pytest.mark.ranks
@pytest.mark.parametrize(("name", "keras"), STOOD_IN)
def test_a_migrated_program_trains_as_the_original_with_the_stand_in(
    name: str, keras: Keras, ours: Migrated, train: Train, tmp_path: Path
) -> None:
    source = HOROVOD.format(folder=str(STAND_IN)) + (PROGRAMS / f"{name}.py").read_text("utf-8")
    found = compare(train(source, keras, tmp_path / "ranks"), ours(name, keras))
    assert (found.verdict, found.reasons) == ("equal", ()), found.sentence


# Of a migrated program: what stands there, what a mistake makes of it, and the reason that is found.
MISTAKES = {
    "gradients summed": ('("MEAN", present)', '("SUM", present)', "sum-for-mean"),
    "gradients not reduced": ('iter(reduce_over_workers("MEAN", present))', "iter(present)", "not-reduced"),
    "weights not broadcast": ("        if not self.is_done:", "        if False:", "not-broadcast"),
    "metrics summed": ('("MEAN", [tf.constant', '("SUM", [tf.constant', "other-reduction"),
    "rate not scaled": ("0.05 * size()", "0.05", "rate-scaled"),
    "data not shared out": (".shard(size(), rank())", ".shard(size(), 0)", "not-sharded"),
}


@pytest.mark.ranks
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_and_named(mistake: str, train: Train, tmp_path: Path) -> None:
    right, wrong, reason = MISTAKES[mistake]
    source = migrated("fit_momentum", "2")
    assert right in source
    found = compare(real("fit_momentum"), train(source.replace(right, wrong), "2", tmp_path / "ranks"))
    assert farthest(found) > 1000 * CLOSE
    assert reason in [each.name for each in found.reasons if not each.is_expected]


DRIVER = """
from sparkdl import HorovodRunner


def train(rate):
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf

    hvd.init()
    x = np.arange(12, dtype="float32").reshape(4, 3)[hvd.rank() :: hvd.size()] / 10
    weight = tf.Variable(np.full((3, 1), 0.5, "float32"))
    optimizer = tf.keras.optimizers.SGD(rate)
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(x, weight) ** 2)
        tape = hvd.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, [weight]), [weight]))
    return float(loss)


if __name__ == "__main__":
    print(HorovodRunner(np=2).run(train, rate=0.1))
"""


@pytest.mark.ranks
def test_a_function_that_a_driver_hands_to_its_workers(tmp_path: Path) -> None:
    (tmp_path / "runner.py").write_text(DRIVER)
    command = [Path(sys.executable).with_name("hvd-migrate"), "parity", "runner.py", "--format", "json"]
    command += ["--horovod", "stand-in", "--device", "cpu"]
    ended = subprocess.run(command, cwd=tmp_path, env={**os.environ, **FIXED}, capture_output=True, text=True)
    found = json.loads(ended.stdout)
    assert (found["verdict"], found["compared"]["steps"]) == ("equal", 3)


# Helpers

# They call others that reduce or gather, and nothing else.
THROUGH = {
    "accumulate_gradients",
    "accumulate_summed_gradients",
    "adding_tape",
    "average_gradients",
    "averaging_tape",
    "join_in_scope",
    "load_averaging_model",
    "sum_gradients",
}


def functions(path: Path) -> set[tuple[str, str, frozenset[str]]]:
    """Of each function that a helper's file holds with some features: its name, its docstring and what it uses."""
    features = sorted(set(re.findall(r"with(?:out)? (\w+)(?=,|$)", path.read_text("utf-8"), re.MULTILINE)))
    chosen = itertools.chain.from_iterable(itertools.combinations(features, n) for n in range(4))
    found = set()
    for each in chosen:
        with contextlib.suppress(SyntaxError):
            source = helper_source(f"tensorflow.{path.stem}", frozenset(each))
            (node,) = ast.parse(source.text).body
            if isinstance(node, ast.FunctionDef):
                found.add((node.name, ast.get_docstring(node, clean=False) or "", frozenset(source.helpers)))
    return found


def test_helpers_that_reduce_or_gather_are_known() -> None:
    known = functions_by_file()
    reducing = {"reduce_over_workers", "gather_from_workers"}
    while more := {stem for stem, found in known.items() if _uses(found, reducing)} - reducing:
        reducing |= more
    missing = [
        (name, docstring)
        for stem in sorted(reducing & known.keys())
        for name, docstring, _ in known[stem]
        if docstring and name not in THROUGH and docstring not in DOCSTRINGS
    ]
    assert missing == []
    assert set(DOCSTRINGS.values()) == set(HELPERS)
    docstrings = {docstring for found in known.values() for _, docstring, _ in found}
    assert [docstring for docstring in DOCSTRINGS if docstring not in docstrings] == []


def functions_by_file() -> dict[str, set[tuple[str, str, frozenset[str]]]]:
    """The functions of all helpers for TensorFlow."""
    return {path.stem: functions(path) for path in (SOURCES / "tensorflow").glob("*.py")}


def _uses(found: set[tuple[str, str, frozenset[str]]], names: set[str]) -> bool:
    return any(helper.removeprefix("tensorflow.") in names for _, _, helpers in found for helper in helpers)


# The recorder as a file


def test_it_is_python_3_8() -> None:
    ast.parse(Path(recorder_tensorflow.__file__).read_text("utf-8"), feature_version=(3, 8))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("size", [1, 7, 4097, 40_001])
def test_an_array_has_the_fingerprint_of_a_tensor(dtype: str, size: int) -> None:
    array = np.random.RandomState(size).randint(-100, 100, size).astype(dtype)
    digest, norm, *elements = recorder_tensorflow.fingerprint(array)
    expected, expected_norm, *expected_elements = recorder.fingerprints([torch.from_numpy(array)])[0]
    assert (digest, elements) == (expected, expected_elements)
    assert norm == pytest.approx(expected_norm)


def test_rows_have_the_fingerprint_of_the_tensor_that_they_stand_for() -> None:
    values, dense = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "float32"), np.zeros((4, 2), "float32")
    dense[3], dense[1] = [4.0, 6.0], [5.0, 6.0]
    found = recorder_tensorflow.sparse_fingerprint(values, np.array([3, 3, 1]), (4, 2))
    assert found == recorder_tensorflow.fingerprint(dense)


DROPOUT = """
import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

hvd.init()
inputs, targets = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")
dropout = tf.keras.layers.Dropout(0.5)
model = tf.keras.Sequential([tf.keras.Input((4,)), dropout, tf.keras.layers.Dense(1)])
model.compile(loss="mse", optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)))
model.fit(inputs, targets, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
print([weight.tolist() for weight in model.get_weights()])
print(dropout(np.ones((1, 64), "float32"), training=True).numpy().tolist())
"""


@pytest.mark.ranks
def test_workers_keep_their_own_random_numbers(tmp_path: Path) -> None:
    """Horovod broadcasts no state of a random generator; Keras 3 counts it among a model's variables."""
    (file,) = migrate_text("dropout.py", DROPOUT.encode(), Settings(keras="3")).files
    with workers("3") as run:
        ranks = run(file.after.decode(), tmp_path / "ranks")
    assert [rank.err for rank in ranks if rank.status] == []
    (weights, mask), (other_weights, other_mask) = (rank.out.splitlines()[-2:] for rank in ranks)
    assert weights == other_weights
    assert mask != other_mask
