"""The helpers, run on two ranks; the numbers are what Horovod 0.28.1 gave for the same calls."""

from __future__ import annotations

import ast
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import run_on_ranks, traces

from migrator.helpers import HelperSource, helper_source

SOURCES = Path(__file__).parents[1] / "migrator" / "helpers" / "sources"
# What needs Ray is run by test_ray.
NAMES = sorted(path.stem for path in SOURCES.glob("*.py") if path.stem != "run_on_ray")
GRADIENTS = [
    frozenset(f) for n in range(4) for f in itertools.combinations(("sum", "compression", "sparse", "dense"), n)
]
FEATURES = [f for f in GRADIENTS if not {"sparse", "dense"} <= f]
OPTIONS = {"mean": (), "group": ("options",), "scale": ("long", "options", "ends"), "compression": ("long", "options")}


def choices(name: str) -> list[frozenset[str]]:
    """The sets of features that rules ask a helper for."""
    if name == "reduce_gradients":
        return FEATURES
    if name == "averaging":
        return [frozenset(f) for f in ([], ["sum"], ["compression"], ["sum", "compression"])]
    if name == "sparse_all_reduce_async":
        return [frozenset({"asynchronous"}), frozenset({"asynchronous", "group"})]
    if name in ("all_gather_cat", "all_to_all"):
        return [frozenset(f) for f in ([], ["group"], ["asynchronous"], ["asynchronous", "group"])]
    text = (SOURCES / f"{name}.py").read_text("utf-8")
    if re.search(r"with(out)? (options|scale)", text):
        wanted = [f for n in range(5) for f in itertools.combinations(OPTIONS, n)]
        asked = [{*f, *itertools.chain(*(OPTIONS[o] for o in f))} for f in wanted]
        return [frozenset(f | {"ends"} if "mean" in f else f) for f in asked]
    return [frozenset(), frozenset({"group"})] if "with group" in text else [frozenset()]


VARIANTS = [(name, features) for name in NAMES for features in choices(name)]


def code(*names: str, features: frozenset[str] = frozenset()) -> str:
    """The source of helpers with what they need, as a program would hold it."""
    found: dict[str, HelperSource] = {}

    def add(name: str, wanted: frozenset[str]) -> None:
        source = helper_source(name, wanted)
        for other in source.helpers:
            add(other, wanted)
        found.setdefault(name, source)

    for name in names:
        add(name, features)
    imports = {item for source in found.values() for item in source.imports}
    lines = [f"from {m} import {n}" if n else f"import {m}" + (f" as {a}" if a else "") for m, n, a in sorted(imports)]
    return "\n".join(
        ["import os, torch", "import torch.distributed as dist", *lines, *(s.text for s in found.values()), ""]
    )


START = code("init_process_group") + "init_process_group()\nrank = dist.get_rank()\n"
SHOW = (
    "def show(key, *values):\n"
    "    print('TRACE', key, *(v.tolist() if isinstance(v, torch.Tensor) else v for v in values))\n"
)


@pytest.mark.parametrize(("name", "features"), VARIANTS)
def test_helper_is_short_typed_and_documented(name: str, features: frozenset[str]) -> None:
    source = helper_source(name, features)
    definition = ast.parse(source.text).body[0]
    assert isinstance(definition, ast.FunctionDef | ast.ClassDef)
    assert len(source.text.splitlines()) <= 22
    assert max(map(len, source.text.splitlines())) <= 126  # run_on_ranks
    documentation = ast.get_docstring(definition)
    assert documentation is not None
    assert "\n" not in documentation
    functions = [node for node in ast.walk(definition) if isinstance(node, ast.FunctionDef)]
    assert all(function.returns is not None for function in functions)
    own = [a for f in functions for a in (*f.args.args, *f.args.kwonlyargs) if a.arg not in ("ctx", "self")]
    assert all(argument.annotation is not None for argument in own)


@pytest.mark.parametrize(("name", "features"), VARIANTS)
def test_helper_binds_what_it_uses(name: str, features: frozenset[str]) -> None:
    exec(code(name, features=features), {"__name__": "helpers"})


def test_unknown_helper() -> None:
    with pytest.raises(FileNotFoundError):
        helper_source("no_such_helper")


@pytest.mark.ranks
def test_reductions(tmp_path: Path) -> None:
    source = (
        START
        + SHOW
        + code("all_reduce_mean", "all_reduce")
        + """
for dtype in (torch.float16, torch.float32, torch.float64):
    tensor = torch.tensor([1.0, 2.0, 4.0], dtype=dtype) * (rank + 1)
    show(dtype, all_reduce_mean(tensor + torch.tensor([1.5, 1.5, 1.0])))
for dtype in (torch.int32, torch.int64):
    tensor = torch.tensor([7, -9, 15, -14], dtype=dtype) + rank * torch.tensor([1, -1, -19, 21], dtype=dtype)
    mean = all_reduce_mean(tensor)
    show(dtype, mean, mean.dtype == dtype)
show("scalar", all_reduce_mean(torch.tensor(rank + 1.0)))
show("empty", all_reduce_mean(torch.empty(0)))
tensor = torch.tensor([1.0, 2.0]) + rank
show("out_of_place", all_reduce_mean(tensor), tensor)
tensor = torch.tensor([1.0 + rank, 5.0 - rank])
for op in ("SUM", "MIN", "MAX", "PRODUCT"):
    show(op, all_reduce(tensor, getattr(dist.ReduceOp, op)))
show("untouched", tensor)
show("overflow", all_reduce_mean(torch.tensor([60000.0], dtype=torch.float16)))
"""
    )
    first, second = traces(source, tmp_path)
    common = {
        "torch.float16": "[3.0, 4.5, 7.0]",
        "torch.float32": "[3.0, 4.5, 7.0]",
        "torch.float64": "[3.0, 4.5, 7.0]",
        "torch.int32": "[7, -9, 5, -3] True",
        "torch.int64": "[7, -9, 5, -3] True",
        "scalar": "1.5",
        "empty": "[]",
        "SUM": "[3.0, 9.0]",
        "MIN": "[1.0, 4.0]",
        "MAX": "[2.0, 5.0]",
        "PRODUCT": "[2.0, 20.0]",
        "overflow": "[inf]",
    }
    assert first == common | {"out_of_place": "[1.5, 2.5] [1.0, 2.0]", "untouched": "[1.0, 5.0]"}
    assert second == common | {"out_of_place": "[1.5, 2.5] [2.0, 3.0]", "untouched": "[2.0, 4.0]"}


@pytest.mark.ranks
def test_gather_and_broadcast(tmp_path: Path) -> None:
    source = (
        START
        + SHOW
        + code("all_gather_cat", "broadcast", "broadcast_object", "broadcast_parameters")
        + """
show("uneven", all_gather_cat(torch.full((rank + 1, 2), float(rank))))
show("none_on_0", all_gather_cat(torch.ones(rank, 2)))
show("all_empty", list(all_gather_cat(torch.ones(0, 2)).shape))
show("integers", all_gather_cat(torch.tensor([rank, 10])))
for dtype in (torch.bool, torch.bfloat16, torch.complex64):
    show(dtype, all_gather_cat(torch.full((1,), rank, dtype=dtype)))
show("transposed", all_gather_cat(torch.arange(4).view(2, 2).t() + 10 * rank))
tensor = torch.tensor([1.0 + rank])
show("broadcast", broadcast(tensor, 1), tensor)
show("scalar", broadcast(torch.tensor(1.0 + rank), 0))
show("object", broadcast_object({"rank": rank}), broadcast_object(f"rank {rank}", 1))
net = torch.nn.BatchNorm1d(1)
torch.nn.init.constant_(net.weight, rank + 3.0)
net.num_batches_tracked += rank
broadcast_parameters(net.state_dict())
show("state", net.weight, net.num_batches_tracked)
torch.nn.init.constant_(net.bias, rank + 7.0)
broadcast_parameters(net.named_parameters(), 1)
show("named", net.bias)
"""
    )
    first, second = traces(source, tmp_path)
    common = {
        "uneven": "[[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]",
        "none_on_0": "[[1.0, 1.0]]",
        "all_empty": "[0, 2]",
        "integers": "[0, 10, 1, 10]",
        "torch.bool": "[False, True]",
        "torch.bfloat16": "[0.0, 1.0]",
        "torch.complex64": "[0j, (1+0j)]",
        "transposed": "[[0, 2], [1, 3], [10, 12], [11, 13]]",
        "scalar": "1.0",
        "object": "{'rank': 0} rank 1",
        "state": "[3.0] 0",
        "named": "[8.0]",
    }
    assert first == common | {"broadcast": "[2.0] [1.0]"}
    assert second == common | {"broadcast": "[2.0] [2.0]"}


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("call", "value", "gradients"),
    [
        ("MeanOverRanks.apply(x)", "[1.5, 3.0]", ("[1.5, 15.0]", "[1.5, 15.0]")),
        ("SumOverRanks.apply(x)", "[3.0, 6.0]", ("[3.0, 30.0]", "[3.0, 30.0]")),
        ("GatherOverRanks.apply(x)", "[1.0, 2.0, 2.0, 4.0]", ("[1.5, 3.0]", "[4.5, 6.0]")),
        ("BroadcastOverRanks.apply(x, 0)", "[1.0, 2.0]", ("[1.5, 15.0]", "[0.0, 0.0]")),
    ],
)
def test_gradients_are_horovods(call: str, value: str, gradients: tuple[str, str], tmp_path: Path) -> None:
    helpers = code("mean_over_ranks", "sum_over_ranks", "gather_over_ranks", "broadcast_over_ranks")
    source = (
        START
        + SHOW
        + helpers
        + f"""
x = (torch.tensor([1.0, 2.0]) * (rank + 1)).requires_grad_()
y = {call}
weights = torch.tensor([1.0, 10.0]) if len(y) == 2 else torch.arange(1.0, len(y) + 1)
(y * weights).sum().mul(rank + 1).backward()
show("value", y)
show("gradient", x.grad)
"""
    )
    assert traces(source, tmp_path) == [{"value": value, "gradient": gradient} for gradient in gradients]


@pytest.mark.ranks
def test_gathered_parts_of_other_lengths_have_gradients(tmp_path: Path) -> None:
    source = (
        START
        + SHOW
        + code("gather_over_ranks")
        + """
x = torch.ones(rank * 2, requires_grad=True)
y = GatherOverRanks.apply(x)
(y * torch.arange(1.0, len(y) + 1)).sum().mul(rank + 1).backward()
show("gradient", x.grad)
"""
    )
    assert [rank["gradient"] for rank in traces(source, tmp_path)] == ["[]", "[1.5, 3.0]"]


@pytest.mark.ranks
@pytest.mark.parametrize("features", FEATURES, ids=lambda f: "+".join(sorted(f)) or "plain")
def test_reduced_gradients(features: frozenset[str], tmp_path: Path) -> None:
    function = "sum_gradients" if "sum" in features else "average_gradients"
    option = ", compression=torch.float16" if "compression" in features else ""
    source = (
        START
        + SHOW
        + code("reduce_gradients", features=features)
        + f"""
parameters = [torch.nn.Parameter(torch.zeros(n)) for n in (2, 1, 3)]
double = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
frozen = torch.nn.Parameter(torch.zeros(1), requires_grad=False)
optimizer = torch.optim.SGD([*parameters, double, frozen], lr=1.0)
parameters[0].grad = torch.tensor([1.0, 1.0 + 2.0**-12]) + rank
parameters[2].grad = torch.full((3,), 4.0) if rank else None
double.grad = torch.full((1,), 2.0 + rank, dtype=torch.float64)
{function}(optimizer{option})
for number, parameter in enumerate([*parameters, double]):
    show(number, parameter.grad)
show("frozen", frozen.grad)
"""
    )
    n = 1 if "sum" in features else 2
    second = 3.0 if "compression" in features else 3.0 + 2.0**-11
    expected = {
        "0": str([3.0 / n, second / n]),
        "1": "[0.0]",
        "2": str([4.0 / n] * 3),
        "3": str([5.0 / n]),
        "frozen": "None",
    }
    assert traces(source, tmp_path) == [expected, expected]


@pytest.mark.ranks
@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_sparse_gradients(form: str, sums: bool, tmp_path: Path) -> None:
    features = frozenset({form, "sum"} if sums else {form})
    function = "sum_gradients" if sums else "average_gradients"
    source = (
        START
        + SHOW
        + code("reduce_gradients", features=features)
        + f"""
table = torch.nn.Embedding(3, 1, sparse=True)
optimizer = torch.optim.SGD(table.parameters(), lr=1.0)
torch.nn.init.ones_(table.weight)
table(torch.tensor([0, 1, 1]) if rank == 0 else torch.tensor([0, 2, 2])).sum().backward()
{function}(optimizer)
show("sparse", table.weight.grad.is_sparse)
show("gradient", table.weight.grad.to_dense().flatten())
if table.weight.grad.is_sparse:
    show("indices", table.weight.grad._indices())
    show("values", table.weight.grad._values().flatten())
"""
    )
    n = 1 if sums else 2
    expected = {"sparse": str(form == "sparse"), "gradient": str([2.0 / n] * 3)}
    if form == "sparse":
        expected |= {"indices": "[[0, 1, 1, 0, 2, 2]]", "values": str([1.0 / n] * 6)}
    assert traces(source, tmp_path) == [expected, expected]


@pytest.mark.ranks
@pytest.mark.parametrize("compresses", [False, True])
@pytest.mark.parametrize("sums", [False, True])
def test_averaging_sets_a_hook_and_returns_the_optimizer(sums: bool, compresses: bool, tmp_path: Path) -> None:
    chosen = frozenset(name for name, wanted in (("sum", sums), ("compression", compresses)) if wanted)
    option = ", torch.float16" if compresses else ""
    source = (
        START
        + SHOW
        + code("averaging", features=chosen)
        + f"""
parameter = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([parameter], lr=1.0)
show("same", averaging(optimizer{option}) is optimizer)
parameter.grad = torch.tensor([1.0 + rank])
optimizer.step()
show("moved", parameter.detach())
"""
    )
    expected = {"same": "True", "moved": "[-3.0]" if sums else "[-1.5]"}
    assert traces(source, tmp_path) == [expected, expected]


@pytest.mark.ranks
@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
def test_optimizer_state(root: int, optimizer: str, tmp_path: Path) -> None:
    source = (
        START
        + SHOW
        + code("broadcast_optimizer_state")
        + f"""
parameter = torch.nn.Parameter(torch.zeros(2))
optimizer = torch.optim.{optimizer}([parameter], lr=0.5 + rank)
if rank == {root}:
    for _ in range(3):
        parameter.grad = torch.ones(2)
        optimizer.step()
broadcast_optimizer_state(optimizer, {root})
show("lr", optimizer.param_groups[0]["lr"])
states = [optimizer.state[p] for p in ([parameter] if "{optimizer}" == "Adam" else [])]
show("state", [{{k: v.tolist() for k, v in state.items()}} for state in states])
"""
    )
    first, second = traces(source, tmp_path)
    assert first == second
    assert first["lr"] == str(0.5 + root)
    assert ("'step': 3.0" in first["state"]) == (optimizer == "Adam")


@pytest.mark.ranks
def test_init_may_be_called_twice_and_the_group_left_twice(tmp_path: Path) -> None:
    source = (
        START
        + SHOW
        + code("destroy_process_group")
        + """
init_process_group()
show("size", dist.get_world_size())
destroy_process_group()
destroy_process_group()
show("joined", dist.is_initialized())
"""
    )
    assert traces(source, tmp_path) == [{"size": "2", "joined": "False"}] * 2


def alone(source: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("HOROVOD", "OMPI", "PMI", "SLURM")) and k != "RANK"
    }
    command = [sys.executable, "-c", source]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.ranks
def test_init_without_a_launcher_trains_alone() -> None:
    helpers = code("init_process_group", "all_reduce_mean", "all_gather_cat", "broadcast_object", "reduce_gradients")
    done = alone(
        helpers
        + """
init_process_group()
parameter = torch.nn.Parameter(torch.zeros(1))
average_gradients(torch.optim.SGD([parameter], lr=1.0))
one = torch.ones(1)
print(dist.get_rank(), dist.get_world_size(), all_reduce_mean(one), all_gather_cat(one), parameter.grad)
"""
    )
    assert done.stdout == "0 1 tensor([1.]) tensor([1.]) None\n", done.stderr


@pytest.mark.ranks
@pytest.mark.parametrize("variable", ["HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"])
def test_init_under_another_launcher_raises_and_names_torchrun(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv(variable, "2")
    namespace: dict = {}
    exec(code("init_process_group"), namespace)
    with pytest.raises(RuntimeError, match=f"{variable} .*torchrun"):
        namespace["init_process_group"]()


def test_adasum_raises() -> None:
    namespace: dict = {}
    exec(code("adasum"), namespace)
    with pytest.raises(NotImplementedError, match="Adasum"):
        namespace["adasum"]()


@pytest.mark.ranks
def test_run_on_ranks(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        code("run_on_ranks")
        + """
def work(first, second=0):
    return int(os.environ["RANK"]) + first + second

if __name__ == "__main__":
    print(run_on_ranks(work, args=(10,), kwargs={"second": 5}, num_processes=2))
"""
    )
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=90, check=False, cwd=tmp_path
    )
    assert done.stdout == "[15, 16]\n", done.stderr[-2000:]
    assert "run_id" not in done.stderr


@pytest.mark.parametrize(
    ("hosts", "raises"), [("localhost:2", False), ("127.0.0.1:1,localhost", False), ("node1:2", True)]
)
def test_run_on_ranks_refuses_other_hosts(hosts: str, raises: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict = {}
    exec(code("run_on_ranks"), namespace)
    namespace["elastic_launch"] = lambda config, function: lambda *args: {1: "b", 0: "a"}
    if raises:
        with pytest.raises(NotImplementedError, match="torchrun"):
            namespace["run_on_ranks"](print, num_processes=2, hosts=hosts)
    else:
        assert namespace["run_on_ranks"](print, num_processes=2, hosts=hosts) == ["a", "b"]


@pytest.mark.ranks
def test_a_rank_that_hangs_is_ended(tmp_path: Path) -> None:
    ranks = run_on_ranks("import os\nwhile os.environ['RANK'] == '1':\n    pass\n", tmp_path, limit=2)
    assert [rank.status for rank in ranks] == [0, -9]


@pytest.mark.ranks
def test_the_error_of_a_rank_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)rank 1 ended with 1: .*KeyError: 'gone'"):
        traces(START + "dist.barrier()\nif rank == 1:\n    raise KeyError('gone')\n", tmp_path)
