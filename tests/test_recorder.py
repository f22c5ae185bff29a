"""The recorder: what it writes, under DDP, averaging at the optimizer and real Horovod, and what it leaves alone."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from ranks import Rank as Ended
from ranks import run_on_ranks
from test_helpers import NAMES, SOURCES, code
from test_traces import HOROVOD, PROGRAMS
from test_traces import migrated as migrated_program

from migrator.parity import recorder
from migrator.parity.launch import STAND_IN
from migrator.parity.trace import Collective, Rank, Trace, read_trace

RECORDER = Path(recorder.__file__)
CHILD = RECORDER.parent / "child"
RECORDED = Path(__file__).parent / "parity_programs" / "traces"
JOIN = "import torch\nimport torch.distributed as dist\ndist.init_process_group('gloo')\n"


def recorded(source: str, folder: Path, size: int = 2, **options: object) -> Trace:
    """The trace of ``source`` on Gloo ranks; fails if a rank does."""
    trace, ranks = record(source, folder, size, **options)
    assert [rank.err for rank in ranks if rank.status] == []
    return trace


def record(source: str, folder: Path, size: int = 2, **options: object) -> tuple[Trace, list[Ended]]:
    arguments = ", ".join([repr(str(folder / "trace")), *(f"{name}={value!r}" for name, value in options.items())])
    start = f"from migrator.parity.recorder import install\ninstall({arguments})\ndel install\n"
    ranks = run_on_ranks(start + source, folder, size)
    assert [rank.err for rank in ranks if "hvd-migrate recorder" in rank.err] == []
    return read_trace(folder / "trace"), ranks


def alone(source: str, folder: Path, **options: object) -> Rank:
    """The trace of ``source`` on one rank."""
    return recorded(source, folder, 1, **options).ranks[0]


def run_file(
    source: str, folder: Path, *options: str, environment: dict[str, str] | None = None, program: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run ``source`` under a recorder that was copied to a folder of its own."""
    copied = folder / "elsewhere" / "recorder.py"
    copied.parent.mkdir()
    copied.write_bytes(RECORDER.read_bytes())
    path = folder / "program.py"
    path.write_text(source, "utf-8")
    launcher = {name for pair in recorder.RANKS for name in pair} | {"HVD_MIGRATE_STARTED"}
    clean = {name: value for name, value in os.environ.items() if name not in launcher}
    return subprocess.run(
        [sys.executable, str(copied), "--output", str(folder / "trace"), *options, *(program or [str(path)])],
        env={**clean, **(environment or {})},
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=180,
    )


def collectives(rank: Rank, *purposes: str) -> list[Collective]:
    """All collectives of a rank for these purposes, in order."""
    end = rank.end.collectives if rank.end is not None else ()
    each = [*(entry for step in rank.steps for entry in step.collectives), *end]
    return [entry for entry in each if entry.purpose in purposes]


# The file itself


def test_it_is_python_3_8_and_needs_the_standard_library_only() -> None:
    source = RECORDER.read_text("utf-8")
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
    ast.parse((CHILD / "sitecustomize.py").read_text("utf-8"), feature_version=(3, 8))


def test_names_of_later_pythons_are_not_evaluated() -> None:
    """Python 3.8 has no ``list[int]``; under ``from __future__ import annotations`` only other places evaluate it."""
    tree = ast.parse(RECORDER.read_text("utf-8"))
    annotations: set[ast.AST] = set()
    for node in ast.walk(tree):
        for slot in ("annotation", "returns"):
            if (annotation := getattr(node, slot, None)) is not None:
                annotations |= set(ast.walk(annotation))
    evaluated = [node for node in ast.walk(tree) if isinstance(node, ast.Subscript) and node not in annotations]
    builtin = {"list", "dict", "set", "tuple", "type", "frozenset"}
    assert [ast.unparse(n) for n in evaluated if isinstance(n.value, ast.Name) and n.value.id in builtin] == []


def communicates(name: str) -> bool:
    """Whether a helper calls a collective, itself or through another helper."""
    text = (SOURCES / f"{name}.py").read_text("utf-8")
    called = re.search(rf"dist\.({'|'.join(recorder.DISTRIBUTED)})\(", text)
    return bool(called) or any(map(communicates, re.findall(r"from migrator\.helpers\.(\w+) import", text)))


@pytest.mark.parametrize("name", [name for name in NAMES if communicates(name) and name != "averaging"])
def test_every_helper_that_communicates_is_known_by_its_docstring(name: str) -> None:
    text = (SOURCES / f"{name}.py").read_text("utf-8")
    names = set(re.findall(r"^(?:def|class) (\w+)", text, re.M))
    docstrings = re.findall(r'^ +"""(.*?)"""', text, re.M)
    if name == "gather_results":  # what the program itself sends is sent inside it, too
        assert recorder.DOCSTRINGS[docstrings[1]] == "gathered"
        return
    if name.endswith("_over_ranks"):  # a class around one helper, which is known
        assert set(re.findall(r"(\w+)\(tensor", text)) - {"forward", "len"} <= set(recorder.HELPERS)
        return
    assert names == {recorder.DOCSTRINGS[each] for each in docstrings} <= set(recorder.HELPERS)


def test_every_docstring_is_that_of_a_helper() -> None:
    texts = "\n".join(path.read_text("utf-8") for path in SOURCES.glob("*.py"))
    assert [docstring for docstring in recorder.DOCSTRINGS if f'"""{docstring}"""' not in texts] == []


# Fingerprints


def digest(tensor: torch.Tensor) -> str:
    return recorder.digests([tensor])[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("size", [1, 7, 4097, 40_001])
def test_digest_depends_on_every_element_and_place(dtype: torch.dtype, size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    tensor = torch.randint(0, 2 if dtype is torch.bool else 100, (size,), generator=generator).to(dtype)
    known = digest(tensor)
    assert digest(tensor.clone()) == known
    for place in {0, size // 2, size - 1}:
        other = tensor.clone()
        other[place] = ~other[place] if dtype is torch.bool else other[place] + 1
        assert digest(other) != known
    swapped = torch.arange(size).to(torch.float32)
    before = digest(swapped)
    if size > 1:
        swapped[[0, size - 1]] = swapped[[size - 1, 0]]
        assert digest(swapped) != before


def test_digest_depends_on_dtype_and_shape() -> None:
    zeros = torch.zeros(6)
    others = [zeros.reshape(2, 3), zeros.to(torch.int32), torch.zeros(7), zeros.reshape(3, 2), torch.zeros(())]
    assert len({digest(each) for each in [zeros, *others]}) == 6


def test_digest_does_not_depend_on_layout_in_memory() -> None:
    matrix = torch.randn(300, 301)
    assert digest(matrix.t()) == digest(matrix.t().contiguous())
    padded = torch.cat([torch.zeros(1), matrix.flatten()])
    assert digest(padded[1:]) == digest(matrix.flatten())
    assert digest(-matrix.to(torch.complex64).conj().imag) == digest(matrix.to(torch.complex64).imag)


@pytest.mark.parametrize("size", [4096, 17_000, 40_003])
def test_sums_are_the_same_without_views_of_other_sizes(size: int) -> None:
    tensor = torch.randn(size).to(torch.float16)
    ours = [recorder._bytes(each) for each in recorder._sums(torch, tensor)]
    theirs = [recorder._bytes(each) for each in recorder._sums_of_bytes(torch, recorder._bytes(tensor))]
    assert ours == theirs


def test_digest_is_that_of_the_format() -> None:
    """A trace of an old recorder must stay comparable: docs/trace.md says what the digest is of."""
    small = np.arange(5, dtype=np.float32)
    assert digest(torch.from_numpy(small)) == hashlib.sha256(b"float32 [5] " + small.tobytes()).hexdigest()[:16]
    large = np.random.default_rng(0).random((99, 333), dtype=np.float32)
    words = np.frombuffer(large.tobytes()[:-4], dtype=np.int64)
    expected = hashlib.sha256(b"float32 [99, 333] ")
    padded = np.zeros(-(-len(words) // 2039) * 2039, dtype=np.int64)
    padded[: len(words)] = words
    expected.update(padded.reshape(-1, 2039).sum(0).tobytes())
    expected.update(large.tobytes()[-4:])
    assert digest(torch.from_numpy(large)) == expected.hexdigest()[:16]


def test_fingerprints_have_norm_and_evenly_spaced_elements() -> None:
    tensors = [torch.arange(10.0), torch.tensor(3.0), torch.empty(0), torch.tensor([3 + 4j])]
    numbers = [entry[1:] for entry in recorder.fingerprints(tensors)]
    assert numbers == [[pytest.approx(285**0.5), 0, 3, 6, 9], [3, 3], [0.0], [5, 3, 4]]
    assert recorder.fingerprints([torch.tensor([float("nan"), float("inf")])])[0][1:] == ["nan", "nan", "inf"]


def test_sparse_tensor_is_its_entries_in_their_order_and_measured_by_their_sums() -> None:
    sparse = torch.sparse_coo_tensor([[2, 0, 2]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], (3, 2), check_invariants=True)
    raw, summed = recorder.fingerprints([sparse, sparse.coalesce()])
    assert raw[1:] == summed[1:] == [pytest.approx(125**0.5), 3, 4, 6, 8]
    assert raw[0] != summed[0]


def test_a_tensor_that_cannot_be_read_does_not_spoil_the_others() -> None:
    tensors = [torch.ones(2), torch.empty(3, device="meta"), torch.ones(2)]
    first, second, third = recorder.fingerprints(tensors)
    assert first == third != ["", "nan"]
    assert second == ["", "nan"]


# Against real Horovod


def test_real_horovod_is_recorded_once_for_each_step() -> None:
    rank = read_trace(RECORDED / "two_optimizers").ranks[0]
    assert [step.optimizer for step in rank.steps] == [0, 1] * 4
    assert [optimizer.type for optimizer in rank.optimizers] == ["Adam", "Adam"]
    gradients = collectives(rank, "gradients")
    assert [each.elements for each in gradients] == [97, 138] * 4
    assert {(each.kind, each.reduction, each.is_exact) for each in gradients} == {("allreduce", "average", True)}
    assert [each.elements for each in collectives(rank, "state")] == [138, 97]


def test_initial_step_of_real_horovod_is_recorded() -> None:
    rank = read_trace(RECORDED / "cnn_batchnorm").ranks[1]
    initial, *others = rank.steps
    assert [step.is_initial for step in rank.steps] == [True] + [False] * 6
    assert (initial.losses, initial.backwards, {each and each.norm for each in initial.gradients}) == ((), 0, {0})
    assert initial.parameters == rank.optimizers[0].start
    pairs = zip(initial.before, initial.parameters, strict=True)
    moved = [after.sample[0] / before.sample[0] for before, after in pairs if before.norm]
    assert moved == pytest.approx([0.999] * len(moved))
    assert not any(step.before for step in others)
    assert [each.elements for each in collectives(rank, "state")] == [492, 0]


@pytest.mark.ranks
@pytest.mark.parametrize("name", PROGRAMS)
def test_recording_changes_no_number(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    source = migrated_program(name, "auto", tmp_path / "in").written["program.py"].decode()
    trace, ranks = record(source, tmp_path)
    assert [rank.trace for rank in ranks] == [HOROVOD[name]["0"], HOROVOD[name]["1"]]
    assert all(rank.end is not None and rank.end.error == "" for rank in trace.ranks)


# Steps

MODEL = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
def loss(rows=2):
    return model(torch.randn(rows, 3)).square().mean()
"""


def test_step_is_recorded_as_the_optimizer_applies_it(tmp_path: Path) -> None:
    source = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
for _ in range(2):
    optimizer.zero_grad()
    value = loss()
    value.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    print("TRACE", value.item(), flush=True)
    optimizer.step()
    scheduler.step()
"""
    rank = alone(MODEL + source, tmp_path)
    printed = [float(line.split()[1]) for line in (tmp_path / "out0").read_text().splitlines()]
    assert [step.losses for step in rank.steps] == [(each,) for each in printed]
    assert [step.rates for step in rank.steps] == [(0.5,), (0.25,)]
    for step in rank.steps:
        assert sum(each.norm**2 for each in step.gradients if each) == pytest.approx(1e-6, rel=1e-3)
    [optimizer] = rank.optimizers
    assert [each.name for each in optimizer.parameters] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    moved = [optimizer.start, *(step.parameters for step in rank.steps)]
    assert len({each[0].digest for each in moved}) == 3
    first = [a - 0.5 * g for a, g in zip(moved[0][0].sample, rank.steps[0].gradients[0].sample, strict=True)]  # type: ignore[union-attr]
    assert list(moved[1][0].sample) == pytest.approx(first)
    assert rank.steps[0].batch != rank.steps[1].batch


def test_same_batch_has_the_same_digest_and_evaluation_has_none(tmp_path: Path) -> None:
    source = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for kind in ("training", "other", "training", "evaluation"):
    torch.manual_seed(0)
    if kind == "evaluation":
        with torch.no_grad():
            loss()
    else:
        loss(2 if kind == "training" else 3).backward()
    optimizer.step()
"""
    batches = [step.batch for step in alone(MODEL + source, tmp_path).steps]
    assert batches[0] == batches[2] != batches[1]
    assert batches[3] == ""


def test_initial_step_is_recorded_with_what_was_there_before_it(tmp_path: Path) -> None:
    source = f"""
import sys
sys.path.insert(0, {str(STAND_IN)!r})
import horovod.torch as hvd
hvd.init()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=0.5)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
torch.nn.init.constant_(model[0].bias, 2.0)
loss().backward()
optimizer.step()
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
"""
    rank = alone(MODEL + source, tmp_path)
    initial, training, again = rank.steps
    assert [step.is_initial for step in rank.steps] == [True, False, True]
    assert training.before == ()
    assert again.before == training.parameters
    for step in (initial, again):
        for before, after in zip(step.before, step.parameters, strict=True):
            assert list(after.sample) == pytest.approx([0.75 * each for each in before.sample])
    start = rank.optimizers[0].start
    assert start[0] == initial.parameters[0] != initial.before[0]
    assert start[1].sample == (2.0,) * 4


def test_an_optimizer_goes_on_in_its_wrapper(tmp_path: Path) -> None:
    source = f"""
import sys
sys.path.insert(0, {str(STAND_IN)!r})
import horovod.torch as hvd
hvd.init()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
loss().backward()
optimizer.step()
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
loss().backward()
optimizer.step()
another = torch.optim.SGD(model.parameters(), lr=0.5)
loss().backward()
another.step()
"""
    rank = alone(MODEL + source, tmp_path)
    assert [step.optimizer for step in rank.steps] == [0, 0, 1]
    assert len(rank.optimizers) == 2


STEPS = {
    "closure": (
        """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def closure():
    optimizer.zero_grad()
    value = loss()
    value.backward()
    return value
optimizer.step(closure)
optimizer.step(closure)
""",
        [1, 1],
    ),
    "lbfgs": (
        """
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
rows = torch.randn(2, 3)
def closure():
    optimizer.zero_grad()
    value = model(rows).square().mean()
    value.backward()
    return value
optimizer.step(closure)
""",
        [3],
    ),
    "accumulated": (
        """
optimizer = torch.optim.Adam(model.parameters())
for number in range(4):
    loss().backward()
    if number % 2:
        optimizer.step()
        optimizer.zero_grad()
""",
        [2, 2],
    ),
    "wrapped": (
        """
class Larger(torch.optim.Optimizer):
    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner
    def step(self):
        for p in model.parameters():
            p.grad *= 2
        self.inner.step()
optimizer = Larger(torch.optim.SGD(model.parameters(), lr=0.1))
for _ in range(3):
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()
""",
        [1, 1, 1],
    ),
    "subclassed": (
        """
class Mine(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
optimizer = Mine(model.parameters(), lr=0.1)
for _ in range(2):
    loss().backward()
    optimizer.step()
""",
        [1, 1],
    ),
    "own": (
        """
class Own(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p -= group["lr"] * p.grad
optimizer = Own(model.parameters())
loss().backward()
optimizer.step()
""",
        [1],
    ),
    "checkpointed": (
        """
from torch.utils.checkpoint import checkpoint
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for reentrant in (True, False):
    rows = torch.randn(2, 3, requires_grad=True)
    checkpoint(model, rows, use_reentrant=reentrant).sum().backward()
    optimizer.step()
""",
        [1, 1],
    ),
    "failed": (
        """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.register_step_pre_hook(lambda *_: None)
broken = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)
broken.param_groups[0]["weight_decay"] = "much"
broken.param_groups[0]["params"][0].grad = torch.ones(2)
try:
    broken.step()
except TypeError:
    pass
loss().backward()
optimizer.step()
""",
        [1],
    ),
}


@pytest.mark.parametrize("name", sorted(STEPS))
def test_one_step_is_recorded_for_each(name: str, tmp_path: Path) -> None:
    source, backwards = STEPS[name]
    rank = alone(MODEL + source, tmp_path)
    assert [step.backwards for step in rank.steps] == backwards
    assert [len(step.losses) for step in rank.steps] == backwards
    assert {step.optimizer for step in rank.steps} == {0}
    assert all(each is not None and each.norm > 0 for step in rank.steps for each in step.gradients)
    assert all(step.parameters for step in rank.steps)


def test_gradients_of_a_closure_are_those_that_were_applied(tmp_path: Path) -> None:
    """The first step's gradients must not turn up as the second's."""
    rank = alone(MODEL + STEPS["closure"][0], tmp_path)
    weights = [rank.optimizers[0].start[0], *(step.parameters[0] for step in rank.steps)]
    for step, (before, after) in zip(rank.steps, itertools.pairwise(weights), strict=True):
        gradient = step.gradients[0]
        assert gradient is not None
        expected = [a - 0.1 * g for a, g in zip(before.sample, gradient.sample, strict=True)]
        assert list(after.sample) == pytest.approx(expected)


def test_a_step_that_a_gradient_scaler_skips_is_none(tmp_path: Path) -> None:
    source = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
for factor in (1.0, float("inf"), 1.0):
    optimizer.zero_grad()
    value = loss() * factor
    scaler.scale(value).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
"""
    first, second = alone(MODEL + source, tmp_path).steps
    assert (first.backwards, second.backwards) == (1, 2)
    assert second.losses[0] == float("inf")


def test_kinds_of_gradients(tmp_path: Path) -> None:
    source = """
import torch
embedding = torch.nn.Embedding(5, 2, sparse=True)
unused = torch.nn.Parameter(torch.zeros(3))
scalar = torch.nn.Parameter(torch.tensor(2.0))
empty = torch.nn.Parameter(torch.zeros(0))
half = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
turned = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
parameters = [*embedding.parameters(), unused, scalar, empty, half, turned]
optimizer = torch.optim.SGD(parameters, lr=1.0)
value = embedding(torch.tensor([1, 1, 4])).sum() * scalar + half.sum() + empty.sum() + (turned * (1 + 2j)).real.sum()
value.backward()
optimizer.step()
"""
    rank = alone(source, tmp_path)
    names = [(each.name, each.shape, each.dtype) for each in rank.optimizers[0].parameters]
    assert names == [
        ("weight", (5, 2), "float32"),
        ("0.1", (3,), "float32"),
        ("0.2", (), "float32"),
        ("0.3", (0,), "float32"),
        ("0.4", (3,), "bfloat16"),
        ("0.5", (2,), "complex64"),
    ]
    gradients = rank.steps[0].gradients
    assert gradients[1] is None
    found = [None if each is None else each.sample for each in gradients]
    assert found[0] == (4.0, 4.0, 2.0, 2.0)
    assert found[3:] == [(), (1.0, 1.0, 1.0), (1.0, -2.0, 1.0, -2.0)]
    assert gradients[0] is not None
    assert gradients[0].norm == pytest.approx(40**0.5)


def test_compiled_model(tmp_path: Path) -> None:
    source = """
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    compiled(torch.randn(2, 3)).square().mean().backward()
    optimizer.step()
full = torch.compile(lambda rows: model(rows).sum(), backend="eager", fullgraph=True)
full(torch.ones(2, 3))
"""
    plain = alone(MODEL + source.replace("torch.compile(model, ", "(lambda m, **_: m)(model, "), tmp_path / "plain")
    compiled = alone(MODEL + source, tmp_path / "compiled")
    for ours, expected in zip(compiled.steps, plain.steps, strict=True):
        assert replace(ours, seconds=0) == replace(expected, seconds=0)
    assert compiled.optimizers == plain.optimizers


def test_threads_that_call_modules_are_no_batches_of_each_other(tmp_path: Path) -> None:
    source = """
import threading
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def evaluate():
    for _ in range(50):
        with torch.no_grad():
            model(torch.ones(2, 3))
thread = threading.Thread(target=evaluate)
thread.start()
for _ in range(10):
    loss().backward()
    optimizer.step()
thread.join()
"""
    steps = alone(MODEL + source, tmp_path).steps
    assert len(steps) == 10
    assert all(step.batch for step in steps)


def test_graphs_and_models_are_not_kept_alive(tmp_path: Path) -> None:
    source = """
import gc, weakref
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
value = loss()
value.backward()
optimizer.step()
seen = [weakref.ref(each) for each in (value, model, optimizer)]
del value, model, optimizer
gc.collect()
assert [each() for each in seen] == [None] * 3, seen
"""
    assert len(alone(MODEL + source, tmp_path).steps) == 1


def test_random_states_and_random_numbers_are_left_alone(tmp_path: Path) -> None:
    source = """
import random, numpy
torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss().backward()
optimizer.step()
torch.manual_seed(2)
torch.save(model.state_dict(), "model.pt")
print("TRACE numbers", torch.rand(1).item(), random.random(), numpy.random.rand(), flush=True)
"""
    rank = alone(MODEL + source, tmp_path / "recorded")
    bare = run_on_ranks(MODEL + source, tmp_path / "bare", 1)[0]
    assert (tmp_path / "recorded" / "out0").read_text() == bare.out != ""
    assert set(rank.random) >= {"python", "numpy", "torch"}


# Which steps are kept


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"every": 2}, [0, 2, 4]),
        ({"first": 2}, [0, 1, 4]),
        ({"every": 3}, [0, 3, 4]),
        ({"limit": 0}, [4]),
    ],
)
def test_tensors_of_some_steps_are_left_out(options: dict[str, object], kept: list[int], tmp_path: Path) -> None:
    source = """
def main():
    global model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        loss().backward()
        optimizer.step()
    del model
main()
"""
    rank = alone(MODEL + source, tmp_path / "some", **options)
    whole = alone(MODEL + source, tmp_path / "all")
    by_number = {step.number: step for step in rank.steps}
    assert sorted(by_number) == [0, 1, 2, 3, 4]
    assert [number for number, step in by_number.items() if step.parameters] == kept
    for step in whole.steps:
        ours = by_number[step.number]
        assert (ours.losses, ours.batch, ours.backwards) == (step.losses, step.batch, step.backwards)
        assert ours.parameters in ((), step.parameters)
        assert ours.gradients in ((), step.gradients)


# Collectives

HELPERS = ("all_reduce_mean", "all_gather_cat", "broadcast_object", "broadcast_parameters", "all_reduce_mean_")


def test_collectives_of_helpers_are_one_each(tmp_path: Path) -> None:
    source = (
        JOIN
        + code(*HELPERS)
        + """
rank = dist.get_rank()
all_reduce_mean(torch.ones(3, dtype=torch.float64))
all_gather_cat(torch.ones(rank + 1, 2))
all_gather_cat(torch.ones(rank + 1, 2))
broadcast_object({"a": rank})
all_reduce_mean_(torch.ones(2))
for _ in range(2):
    broadcast_parameters(torch.nn.Linear(2, 3).state_dict())
"""
    )
    found = [collectives(rank, "value", "state") for rank in recorded(source, tmp_path).ranks]
    mean = Collective("allreduce", "average", "float64", 3, "value", True)
    gathers = [Collective("allgather", "", "float32", 2 * (rank + 1), "value", True) for rank in range(2)]
    state = Collective("broadcast", "", "float32", 9, "state", True)
    for rank in range(2):
        assert found[rank] == [
            mean,
            gathers[rank],
            gathers[rank],
            Collective("object", "", "", 0, "value", True),
            Collective("allreduce", "average", "float32", 2, "value", True),
            state,
            state,
        ]


def test_helper_without_its_division_is_a_sum(tmp_path: Path) -> None:
    mean = code("all_reduce_mean")
    wrong = re.sub(r"return torch\.div\(.*", "return mean", mean)
    assert wrong != mean
    [collective] = collectives(
        recorded(JOIN + wrong + "\nall_reduce_mean(torch.ones(3))\n", tmp_path).ranks[0], "value"
    )
    assert (collective.reduction, collective.is_exact) == ("sum", True)


def test_function_that_only_has_the_name_of_a_helper_is_the_programs_own(tmp_path: Path) -> None:
    source = """
def all_reduce_mean(tensor):
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor
all_reduce_mean(torch.ones(3))
"""
    [collective] = collectives(recorded(JOIN + source, tmp_path).ranks[0], "value")
    assert collective == Collective("allreduce", "max", "float32", 3, "value", False)


def test_broadcasts_in_a_loop_are_one(tmp_path: Path) -> None:
    source = """
model = torch.nn.BatchNorm1d(4)
for tensor in model.state_dict().values():
    dist.broadcast(tensor, 0)
for tensor in model.state_dict().values():
    dist.broadcast(tensor, 0)
dist.broadcast(torch.ones(2), 1)
dist.barrier()
for _ in range(2):
    dist.broadcast(torch.ones(2), 1)
    dist.all_reduce(torch.ones(1))
works = [dist.all_reduce(torch.ones(5), async_op=True)]
[work.wait() for work in works]
gathered = [torch.empty(1) for _ in range(2)]
dist.all_gather(gathered, torch.ones(1))
dist.all_gather_object([None, None], 3)
"""
    found = collectives(recorded(JOIN + source, tmp_path).ranks[0], "value", "state")
    state = Collective("broadcast", "", "float32", 17, "state", True)
    single = Collective("broadcast", "", "float32", 2, "value", True)
    total = Collective("allreduce", "sum", "float32", 1, "value", False)
    assert found == [
        state,
        state,
        single,
        Collective("barrier", "", "", 0, "value", True),
        *[single, total] * 2,
        replace(total, elements=5),
        Collective("allgather", "", "float32", 1, "value", True),
        Collective("object", "", "", 0, "value", True),
    ]


def test_ddp_reduces_where_it_synchronizes(tmp_path: Path) -> None:
    source = """
import contextlib
from torch.nn.parallel import DistributedDataParallel as DDP
torch.manual_seed(dist.get_rank())
plain = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
model = DDP(plain)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(4):
    with model.no_sync() if number % 2 == 0 else contextlib.nullcontext():
        model(torch.randn(5, 3)).square().mean().backward()
    if number % 2:
        optimizer.step()
model.module(torch.randn(5, 3)).sum().backward()
optimizer.step()
"""
    first, second = recorded(JOIN + source, tmp_path).ranks
    gradients = Collective("allreduce", "average", "float32", 24, "gradients", True)
    assert [step.collectives[-1:] for step in first.steps] == [(gradients,), (gradients,), ()]
    assert collectives(first, "state") == [Collective("broadcast", "", "float32", 33, "state", True)]
    assert [each.name for each in first.optimizers[0].parameters] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert first.steps[1].parameters == second.steps[1].parameters
    assert first.steps[2].parameters != second.steps[2].parameters


def test_reduction_by_a_hook_of_ddp(tmp_path: Path) -> None:
    source = """
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel as DDP
def summed(state, bucket):
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])
for hook in (fp16_compress_hook, summed):
    model = DDP(torch.nn.Linear(3, 4))
    model.register_comm_hook(None, hook)
    model(torch.ones(2, 3)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
"""
    rank = recorded(JOIN + source, tmp_path).ranks[0]
    assert collectives(rank, "value", "gradients") == [
        Collective("allreduce", "average", "float16", 16, "gradients", True),
        Collective("allreduce", "sum", "float32", 16, "gradients", False),
    ]


def test_ddp_reduces_those_models_that_a_backward_reaches(tmp_path: Path) -> None:
    source = """
from torch.nn.parallel import DistributedDataParallel as DDP
generator, judge = DDP(torch.nn.Linear(2, 3)), DDP(torch.nn.Linear(3, 1))
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (generator, judge)]
fake = generator(torch.ones(4, 2))
judge(fake.detach()).sum().backward()
optimizers[1].step()
for parameter in judge.parameters():
    parameter.requires_grad_(False)
judge(fake).sum().backward()
optimizers[0].step()
"""
    rank = recorded(JOIN + source, tmp_path).ranks[0]
    assert [each.elements for each in collectives(rank, "gradients")] == [4, 9]
    assert [step.optimizer for step in rank.steps] == [0, 1]


class NamelessSum:
    """A reduce operation of PyTorch 1.13."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return other == torch.distributed.ReduceOp.SUM


@pytest.mark.parametrize(
    ("op", "name"), [(NamelessSum(), "sum"), (torch.distributed.ReduceOp.MAX, "max"), (None, "average"), (object(), "")]
)
def test_names_of_reductions(op: object, name: str) -> None:
    assert recorder._reduction(op) == name


# Files


def test_saves(tmp_path: Path) -> None:
    source = """
import io, pathlib
optimizer = torch.optim.Adam(model.parameters())
loss().backward()
optimizer.step()
torch.save(model.state_dict(), pathlib.Path("model.pt"))
torch.save({"net": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, open("all.pt", "wb"))
torch.save(model, "whole.pt")
torch.save(model.state_dict(), io.BytesIO())
"""
    model, everything, whole = alone(MODEL + source, tmp_path).saves
    assert (model.file, model.tensors, model.sample) == (
        "model.pt",
        4,
        ("0.weight", "0.bias", "1.weight", "1.bias"),
    )
    assert replace(whole, file="model.pt") == model
    assert (everything.file, everything.tensors) == ("all.pt", 16)
    assert everything.sample[:2] == ("net.0.weight", "net.0.bias")
    assert len({each.keys for each in (model, everything)}) == len({each.values for each in (model, everything)}) == 2
    assert len(list((tmp_path / "work").iterdir())) == 3


def test_buffers_of_a_model_that_is_gone(tmp_path: Path) -> None:
    source = """
import torch
def main():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
    model(torch.randn(4, 3)).sum().backward()
    torch.nn.DataParallel(model)(torch.randn(4, 3))
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model(torch.randn(4, 3))
main()
"""
    end = alone(source, tmp_path).end
    assert end is not None
    assert set(end.buffers) == {"0.running_mean", "0.running_var", "0.num_batches_tracked"}
    assert end.buffers["0.num_batches_tracked"].sample == (3.0,)


# Processes

TRAINING = """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.randn(3, 2)).sum().backward()
    optimizer.step()
"""


def test_copied_file_runs_a_program_as_python_does(tmp_path: Path) -> None:
    source = (
        "import sys, os, pickle\n"
        "class Own: pass\n"
        "assert isinstance(pickle.loads(pickle.dumps(Own())), Own)\n"
        "assert __name__ == '__main__' and sys.modules['__main__'].Own is Own\n"
        "print(sys.argv[1:], os.path.samefile(sys.path[0], os.path.dirname(__file__)), __spec__)\n"
        f"{TRAINING}"
        "raise ValueError('lost\\nit')\n"
    )
    environment = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}
    done = run_file(source, tmp_path, "--seed", "5", environment=environment, program=["program.py", "--lr", "3", "-m"])
    assert done.returncode == 1
    assert done.stdout == "['--lr', '3', '-m'] True None\n"
    assert done.stderr.startswith("Traceback (most recent call last):\n  File ")
    assert done.stderr.endswith("ValueError: lost\nit\n")
    assert "recorder.py" not in done.stderr
    [rank] = read_trace(tmp_path / "trace").ranks
    assert (rank.rank, rank.size, rank.program, rank.arguments) == (2, 4, "program.py", ("--lr", "3", "-m"))
    assert rank.conditions["seed"] == "5"
    assert rank.conditions["torch"] == torch.__version__
    assert rank.end is not None
    assert rank.end.error == "ValueError: lost\nit"


def test_module_and_exit_status(tmp_path: Path) -> None:
    source = TRAINING + "import sys\nprint(__name__, sys.argv[1:])\nsys.exit(3)\n"
    done = run_file(source, tmp_path, program=["-m", "program", "x"])
    assert (done.returncode, done.stdout) == (3, "__main__ ['x']\n")
    [rank] = read_trace(tmp_path / "trace").ranks
    assert (rank.rank, rank.size, len(rank.steps)) == (0, 1, 2)
    assert rank.end is not None
    assert rank.end.error == "SystemExit: 3"


def test_seeds_and_determinism_are_set_at_import(tmp_path: Path) -> None:
    source = "import random, torch, numpy\nprint(random.random(), torch.rand(1).item(), numpy.random.rand())\n"
    source += "print(torch.are_deterministic_algorithms_enabled())\n"
    done = run_file(source, tmp_path, "--seed", "7", "--deterministic", environment={"RANK": "1", "WORLD_SIZE": "2"})
    expected = "import random, torch, numpy\nrandom.seed(8), torch.manual_seed(8), numpy.random.seed(8)\n"
    again = subprocess.run([sys.executable, "-c", expected + source], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == again.stdout.splitlines()[0] != ""
    assert done.stdout.splitlines()[1] == "True"


def child_environment(folder: Path, **more: str) -> dict[str, str]:
    launcher = {name for pair in recorder.RANKS for name in pair} | {"HVD_MIGRATE_STARTED"}
    clean = {name: value for name, value in os.environ.items() if name not in launcher}
    path = os.pathsep.join([str(CHILD), *more.pop("path", "").split()])
    return {**clean, "PYTHONPATH": path, "HVD_MIGRATE_TRACE": str(folder / "trace"), **more}


def python(source: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = folder / "program.py"
    path.write_text(source, "utf-8")
    variables = child_environment(folder, **environment)
    return subprocess.run(
        [sys.executable, str(path)], env=variables, capture_output=True, text=True, cwd=folder, timeout=180
    )


def test_sitecustomize_starts_it_and_loads_the_one_that_it_shadows(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import builtins\nbuiltins.shadowed = __file__\n")
    done = python(TRAINING + "print(shadowed)\n", tmp_path, path=str(tmp_path / "site"), RANK="1", WORLD_SIZE="2")
    assert (done.stdout, done.stderr) == (f"{tmp_path / 'site' / 'sitecustomize.py'}\n", "")
    [rank] = read_trace(tmp_path / "trace").ranks
    assert (rank.rank, rank.size, len(rank.steps)) == (1, 2, 2)


def test_driver_that_never_trains_writes_nothing_and_its_ranks_do(tmp_path: Path) -> None:
    source = f"""
import os, torch
torch.save(torch.ones(2), "driver.pt")
children = []
for rank in range(2):
    child = os.fork()
    if not child:
        os.environ.update(RANK=str(rank), WORLD_SIZE="2")
        exec({TRAINING!r})
        os._exit(rank)
    children.append(child)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
torch.save(torch.ones(2), "driver.pt")
"""
    done = python(source, tmp_path)
    assert (done.stdout, done.stderr) == ("[0, 1]\n", "")
    ranks = read_trace(tmp_path / "trace").ranks
    assert [(rank.rank, rank.size, len(rank.steps), len(rank.saves)) for rank in ranks] == [(0, 2, 2, 0), (1, 2, 2, 0)]
    assert [rank.end and rank.end.error for rank in ranks] == ["", "exit status 1"]


def test_forks_of_a_driver_are_seeded_by_their_ranks_and_forks_of_ranks_are_not(tmp_path: Path) -> None:
    source = """
import os, random, torch
for rank in range(2):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    if not os.fork():
        print(random.random(), torch.initial_seed(), flush=True)
        torch.manual_seed(99)
        if not os.fork():
            print(torch.initial_seed(), flush=True)
            os._exit(0)
        os.wait()
        os._exit(0)
    os.wait()
"""
    done = python(source, tmp_path, HVD_MIGRATE_SEED="7")
    drawn = [random.Random(seed).random() for seed in (7, 8)]
    assert (done.stdout, done.stderr) == (f"{drawn[0]} 7\n99\n{drawn[1]} 8\n99\n", "")


def test_processes_that_a_rank_starts_leave_its_trace_alone(tmp_path: Path) -> None:
    source = f"""
import subprocess, sys, torch
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): return torch.randn(2)
subprocess.run([sys.executable, "-c", "import torch"], check=True)
{TRAINING}
for rows in torch.utils.data.DataLoader(Rows(), num_workers=1):
    model(rows).sum().backward()
    optimizer.step()
subprocess.run([sys.executable, "-c", {TRAINING!r}], check=True)
"""
    done = python(source, tmp_path, RANK="0", WORLD_SIZE="1")
    assert done.returncode == 0
    assert re.fullmatch("hvd-migrate recorder: not recording: another process of this run .*\n", done.stderr)
    [rank] = read_trace(tmp_path / "trace").ranks
    assert len(rank.steps) == 6
    assert rank.end is not None


def test_old_trace_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    old = tmp_path / "trace" / "rank0.jsonl"
    old.write_text("old")
    os.utime(old, (1, 1))
    assert python(TRAINING, tmp_path).stderr == ""
    assert len(read_trace(tmp_path / "trace").ranks[0].steps) == 2


def test_rank_that_fails_before_it_trains_says_so(tmp_path: Path) -> None:
    done = python("raise KeyError('early')\n", tmp_path, RANK="0", WORLD_SIZE="2")
    assert done.returncode == 1
    end = read_trace(tmp_path / "trace").ranks[0].end
    assert end is not None
    assert end.error == "KeyError: 'early'"


def test_killed_rank_leaves_its_steps(tmp_path: Path) -> None:
    done = python(TRAINING + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", tmp_path)
    assert done.returncode == -9
    [rank] = read_trace(tmp_path / "trace").ranks
    assert len(rank.steps) == 2
    assert rank.end is None


@pytest.mark.parametrize("length", [0.3, 0.6, 0.95])
def test_truncated_trace_is_read_up_to_the_cut(length: float, tmp_path: Path) -> None:
    whole = (RECORDED / "mlp" / "rank0.jsonl").read_bytes()
    (tmp_path / "rank0.jsonl").write_bytes(whole[: int(length * len(whole))])
    steps = read_trace(tmp_path).ranks[0].steps
    every = read_trace(RECORDED / "mlp").ranks[0].steps
    assert steps == every[: len(steps)]
    assert 0 < len(steps) < len(every)


def test_failure_of_the_recorder_does_not_reach_the_program(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("a file where the folder should be")
    done = python(TRAINING + "print('trained')\n", tmp_path)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert re.fullmatch("hvd-migrate recorder: recording stopped: .*\n", done.stderr)


def test_lines_that_ran(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text(
        "def used(n):\n    if n:\n        return 1\n    return 2\n\n\ndef unused():\n    return 3\n"
    )
    source = "import part\nfor _ in range(3):\n    part.used(1)\n" + TRAINING
    asked = [str(tmp_path / "part.py"), str(tmp_path / "program.py"), str(tmp_path / "absent.py")]
    (tmp_path / "lines.json").write_text(json.dumps(asked))
    done = python(source, tmp_path, HVD_MIGRATE_LINES=str(tmp_path / "lines.json"))
    assert done.stderr == ""
    end = read_trace(tmp_path / "trace").ranks[0].end
    assert end is not None
    lines = [sorted(end.lines[path]) for path in asked]
    assert lines == [[1, 2, 3, 7], [n for n, text in enumerate(source.splitlines(), 1) if text], []]


@pytest.mark.ranks
def test_backend_is_replaced(tmp_path: Path) -> None:
    source = (
        "import torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\nprint(dist.get_backend())\n"
    )
    _, ranks = record(source, tmp_path, backend="gloo")
    assert [rank.out for rank in ranks] == ["gloo\n"] * 2
