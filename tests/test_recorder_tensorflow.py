"""What the recorder writes of programs that train with TensorFlow: by hand, in graphs, and with Keras."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorflow_workers import Keras, Run, workers
from test_recorder import run_file

from migrator.parity import recorder
from migrator.parity.trace import Optimizer, Rank, Step, read_trace

RECORDED = """
import json
from migrator.parity.recorder import install
files = [__file__]
install({folder!r}, seed=3, is_deterministic=True, lines=files, first=None if {all} else 1)
del install
{source}
"""
TAPES = """
import numpy as np
import tensorflow as tf

x = np.arange(12, dtype="float32").reshape(4, 3) / 10
weight = tf.Variable(np.full((3, 1), 0.5, "float32"))
rows = tf.Variable(np.ones((4, 2), "float32"))
unused = tf.Variable(1.0)
variables = [weight, rows, unused]


def step(optimizer, inputs, places):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.matmul(inputs, weight) ** 2) + tf.reduce_sum(tf.gather(rows, places) * 3)
        if tf.reduce_sum(inputs) > 1000:
            loss = loss * 0
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients([(g, v) for g, v in zip(gradients, variables) if g is not None])


eager = tf.keras.optimizers.SGD(0.125)
step(eager, x, [1, 3, 3])
in_graph = tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5))
function = tf.function(step)
function(in_graph, tf.constant(x), tf.constant([1, 3, 3]))
function(in_graph, tf.constant(x), tf.constant([1, 3, 3]))
compiled = tf.keras.optimizers.SGD(0.25)
tf.function(step, jit_compile=True)(compiled, tf.constant(x), tf.constant([1, 3, 3]))
print(json.dumps([weight.numpy().tolist(), rows.numpy().tolist()]))
tf.train.Checkpoint(weight=weight).save("by_hand")
"""
CONDITION = """
import tensorflow as tf

weight = tf.Variable(1.0)
optimizer = tf.keras.optimizers.SGD(0.0)
optimizer.build([weight])


@tf.function
def step(number):
    with tf.GradientTape() as tape:
        loss = weight * tf.cast(number, tf.float32)
    gradient = tape.gradient(loss, [weight])
    if number % 2 == 1:
        optimizer.apply_gradients(zip(gradient, [weight]))


for number in range(40):
    step(tf.constant(number))
"""
FIT = """
import numpy as np
import tensorflow as tf

x = np.arange(24, dtype="float32").reshape(8, 3) / 10
y = x.sum(1, keepdims=True)
inputs = tf.keras.Input((3,))
hidden = tf.keras.layers.BatchNormalization()(tf.keras.layers.Dense(2, kernel_initializer="ones")(inputs))
model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, kernel_initializer="ones")(hidden))
model.compile(loss="mse", optimizer=tf.keras.optimizers.SGD(0.1, clipnorm=0.5))
model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0, validation_data=(x, y))
model.predict(x, verbose=0)
model.save_weights("fit.weights.h5")
scaled = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
model.compile(loss="mse", optimizer=scaled)
model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0)
"""


@pytest.fixture(scope="module", params=["2", "3"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs programs with Keras 2, then with Keras 3."""
    keras: Keras = request.param
    with workers(keras) as started:
        yield started


@pytest.fixture(scope="module")
def by_hand(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Rank, list[list[list[float]]]]:
    """The trace of a program with tapes, and the values that its variables end with."""
    rank, out = record(run, TAPES, tmp_path_factory.mktemp("tapes") / "rank")
    return rank, json.loads(out)


@pytest.fixture(scope="module")
def fit(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Rank:
    """The trace of a program with fit."""
    return record(run, FIT, tmp_path_factory.mktemp("fit") / "rank")[0]


def record(run: Run, source: str, folder: Path, keeps_all: bool = True) -> tuple[Rank, str]:
    text = RECORDED.format(folder=str(folder / "trace"), all=keeps_all, source=source)
    (ended,) = run(text, folder, 1)
    assert not ended.status, ended.err
    assert "hvd-migrate recorder" not in ended.err
    (rank,) = read_trace(folder / "trace").ranks
    assert rank.end is not None
    assert rank.end.error == ""
    return rank, ended.out


def steps_of(rank: Rank, number: int) -> tuple[Optimizer, list[Step]]:
    return rank.optimizers[number], [step for step in rank.steps if step.optimizer == number]


@pytest.mark.ranks
def test_values_of_eager_steps(by_hand: tuple[Rank, list[list[list[float]]]]) -> None:
    rank, _ = by_hand
    optimizer, (step,) = steps_of(rank, 0)
    assert (optimizer.type, [each.shape for each in optimizer.parameters]) == ("SGD", [(3, 1), (4, 2)])
    assert [each.sample for each in optimizer.start] == [(0.5, 0.5, 0.5), (1, 1, 1, 1)]
    assert step.losses == pytest.approx([21.735])
    assert (step.rates, step.backwards) == ((0.125,), 1)
    gradient = step.gradients[1]
    assert gradient is not None
    assert gradient.sample == (0, 3, 0, 6)  # rows 1 and 3 of four, the latter twice
    assert step.parameters[1].sample == (1, 0.625, 1, 0.25)


@pytest.mark.ranks
def test_values_are_those_of_the_run_of_a_graph(by_hand: tuple[Rank, list[list[list[float]]]]) -> None:
    rank, _ = by_hand
    _, (eager,) = steps_of(rank, 0)
    optimizer, (first, second) = steps_of(rank, 1)
    assert optimizer.start == eager.parameters
    assert [first.rates, second.rates] == [(0.5,), (0.25,)]
    assert first.parameters != second.parameters
    assert first.losses != second.losses
    assert second.parameters[1].sample == pytest.approx((1, -1.625, 1, -4.25))


@pytest.mark.ranks
def test_what_xla_would_compile_is_recorded(by_hand: tuple[Rank, list[list[list[float]]]]) -> None:
    rank, (weight, rows) = by_hand
    _, (step,) = steps_of(rank, 2)
    assert step.parameters[0].sample == pytest.approx([each[0] for each in weight])
    assert step.parameters[1].sample == pytest.approx([each[0] for each in rows])


@pytest.mark.ranks
def test_lines_of_functions_that_autograph_has_converted(by_hand: tuple[Rank, list[list[list[float]]]]) -> None:
    rank, _ = by_hand
    assert rank.end is not None
    (lines,) = rank.end.lines.values()
    source = RECORDED.format(folder="", all=True, source=TAPES).splitlines()
    assert source.index("            loss = loss * 0") + 1 in lines  # both branches are traced
    assert source.index("    gradients = tape.gradient(loss, variables)") + 1 in lines


@pytest.mark.ranks
def test_steps_in_a_condition_come_in_the_order_of_the_program(run: Run, tmp_path: Path) -> None:
    rank, _ = record(run, CONDITION, tmp_path / "rank")
    _, steps = steps_of(rank, 0)
    assert [step.losses for step in steps] == [(2.0 * n, 2.0 * n + 1) for n in range(20)]


@pytest.mark.ranks
def test_a_checkpoint(by_hand: tuple[Rank, list[list[list[float]]]]) -> None:
    rank, _ = by_hand
    (save,) = rank.saves
    assert (save.file, save.tensors) == ("by_hand-1", 2)
    assert save.sample[1] == "weight/.ATTRIBUTES/VARIABLE_VALUE"


@pytest.mark.ranks
def test_fit(fit: Rank) -> None:
    optimizer, steps = steps_of(fit, 0)
    assert [each.shape for each in optimizer.parameters] == [(3, 2), (2,), (2,), (2,), (2, 1), (1,)]
    assert len(steps) == 4
    assert [step.backwards for step in steps] == [1] * 4
    assert steps[0].batch == steps[2].batch != steps[1].batch
    clipped = [each.norm for each in steps[0].gradients if each]
    assert max(clipped) == pytest.approx(0.5)
    assert [(save.file, save.tensors, save.sample[0]) for save in fit.saves] == [("fit.weights.h5", 8, "0.kernel")]
    assert fit.end is not None
    assert list(fit.end.buffers) == ["0.moving_mean", "1.moving_variance"]


@pytest.mark.ranks
def test_the_optimizer_inside_of_one_that_scales_losses_steps(fit: Rank) -> None:
    optimizer, steps = steps_of(fit, 1)
    assert optimizer.type == "SGD"
    assert len(steps) == 2
    assert [(step.backwards, len(step.losses)) for step in steps] == [(1, 1), (1, 1)]
    assert steps[0].losses[0] > 1000 * steps_of(fit, 0)[1][0].losses[0]


@pytest.mark.ranks
def test_conditions_and_random_states(fit: Rank) -> None:
    assert {"tensorflow", "keras", "intra-op threads", "oneDNN"} <= fit.conditions.keys()
    assert (fit.conditions["deterministic"], fit.conditions["seed"], fit.conditions["device"]) == ("yes", "3", "cpu")
    assert set(fit.random) == {"python", "numpy", "tensorflow"}


@pytest.mark.ranks
def test_steps_that_are_left_out_end_with_their_parameters(run: Run, fit: Rank, tmp_path: Path) -> None:
    rank, _ = record(run, FIT, tmp_path / "rank", keeps_all=False)
    first, *others = steps_of(rank, 0)[1]
    assert first.parameters == steps_of(fit, 0)[1][0].parameters
    assert not any(step.parameters for step in others)
    assert rank.steps[-1].parameters == fit.steps[-1].parameters


# The file beside the recorder

STEP = """
import torch
import tensorflow
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], 0.1)
weight.sum().backward()
optimizer.step()
print("goes on")
"""


def test_without_its_other_part_pytorch_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("class random:\n    set_seed = print\n")
    environment = {"RANK": "0", "WORLD_SIZE": "1"}
    ended = run_file(STEP, tmp_path, "--seed", "0", environment=environment)
    assert (ended.returncode, ended.stdout) == (0, "0\ngoes on\n")
    assert ended.stderr.startswith("hvd-migrate recorder: TensorFlow is not recorded: ")
    assert ended.stderr.count("\n") == 1
    assert len(read_trace(tmp_path / "trace").ranks[0].steps) == 1


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}, (1, 2)),
        ({"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}, "task": {"type": "worker", "index": 0}}, (1, 3)),
        ({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief", "index": 0}}, (0, 2)),
        ({"cluster": {"worker": ["a:1"]}}, None),
        ("no object", None),
    ],
)
def test_the_rank_that_tf_config_gives(
    config: object, place: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank, size in recorder.RANKS:
        monkeypatch.delenv(rank, raising=False)
        monkeypatch.delenv(size, raising=False)
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert recorder.rank_and_size() == place
