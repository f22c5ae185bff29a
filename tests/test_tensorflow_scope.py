"""Programs that Keras 2 distributes itself, against what real Horovod 0.28.1 trained them to with Keras 2.15."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from forking import Rank
from record_tensorflow_scope import ANSWERS, PROGRAMS
from tensorflow_workers import Run, workers

from migrator.config import Settings
from migrator.engine import migrate_text

CLOSE = 1e-6
Trained = Callable[[str], tuple[list[Rank], Path]]
UNEVEN = """
import tensorflow as tf
import horovod.tensorflow.keras as hvd

hvd.init()
data = tf.data.Dataset.from_tensor_slices((tf.ones((9, 1)), tf.ones((9, 1)))).shard(hvd.size(), hvd.rank()).batch(1)
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(loss="mse", optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD()))
try:
    model.fit(data, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
except ValueError as error:
    print("TRACE", "error", error)
"""


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """What runs programs on workers with Keras 2."""
    with workers("2") as started:
        yield started


@pytest.fixture(scope="module")
def trained(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """What the workers of a program did, and their folder."""

    @cache
    def of(name: str) -> tuple[list[Rank], Path]:
        folder = tmp_path_factory.mktemp(name) / "ranks"
        ranks = run(migrated((PROGRAMS / f"{name}.py").read_text("utf-8")), folder)
        assert [rank.err for rank in ranks if rank.status] == []
        return ranks, folder / "work"

    return of


def migrated(source: str) -> str:
    """A program after its migration."""
    (file,) = migrate_text("program.py", source.encode(), Settings(gradients="scope", keras="2", jobs=1)).files
    assert file.after != file.before
    return file.after.decode()


def values(rank: Rank, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The numbers of one of its lines."""
    return flat(ast.literal_eval(rank.trace[name]))


def flat(value: object) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """All numbers in nested lists."""
    if not isinstance(value, list):
        return np.array([value], "float64")
    return np.concatenate([flat(each) for each in value])


@pytest.mark.ranks
@pytest.mark.parametrize("name", ["saves", "warm_up"])
def test_what_keras_distributes_trains_as_real_horovod(name: str, trained: Trained) -> None:
    expected = json.loads(ANSWERS.read_text("utf-8"))[name]
    for number, rank in enumerate(trained(name)[0]):
        for what in ("weights", "loss"):
            assert np.abs(values(rank, what) - flat(expected[str(number)][what])).max() <= CLOSE


@pytest.mark.ranks
def test_statistics_are_the_mean_of_all_workers(trained: Trained) -> None:
    expected = json.loads(ANSWERS.read_text("utf-8"))["saves"]
    first, second = (flat(expected[number]["statistics"]) for number in ("0", "1"))
    one, other = (values(rank, "statistics") for rank in trained("saves")[0])
    assert np.abs(one - other).max() <= CLOSE
    # Under Horovod both begin with those that rank 0 has after the first batch, which keeps a trace in all later ones.
    apart = np.abs(first - second).max()
    assert apart > 1000 * CLOSE
    assert np.abs(one - (first + second) / 2).max() < apart / 5


@pytest.mark.ranks
def test_every_worker_saves_and_the_first_ones_stays(trained: Trained) -> None:
    folder = trained("saves")[1]
    saved = {path.name for path in folder.iterdir() if path.suffix == ".h5"}
    assert saved == {"best.h5", "saves.h5", "saves.weights.h5"}


@pytest.mark.ranks
def test_workers_with_different_numbers_of_batches_are_told(run: Run, tmp_path: Path) -> None:
    told = "the workers have [5, 4] batches: give all of them as many"
    assert [rank.trace.get("error") for rank in run(migrated(UNEVEN), tmp_path / "ranks")] == [told, told]
