"""Every public symbol of Horovod for PyTorch, and every method of what they return, has a rule of its own.

``horovod_symbols.tsv`` and ``horovod_methods.tsv`` were read from Horovod 0.28.1 with ``dir`` and ``inspect``.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from update_fixtures import run

from migrator.config import Settings
from migrator.registry import load_rules
from migrator.result import Diagnostic

FOLDER = Path(__file__).parent
REGISTRY = load_rules()
NOT_THEIR_OWN = ("HVD002", "HVD005", "HVD900")
OPTIMIZER = "horovod.torch.DistributedOptimizer"
CALLS = {
    "HorovodInternalError": '("failed")',
    "HorovodRunner": "(np=2)",
    "ProcessSet": "([0])",
    "SyncBatchNorm": "(8)",
    "add_process_set": "([0])",
    "allgather": "(torch.ones(2))",
    "allreduce": "(torch.ones(2))",
    "broadcast": "(torch.ones(2), 0)",
    "broadcast_": "(torch.ones(2), 0)",
    "broadcast_object": "(1)",
    "broadcast_parameters": "(net.state_dict(), 0)",
    "broadcast_optimizer_state": "(opt, 0)",
    "DistributedOptimizer": "(opt)",
    "gpu_available": '("torch")',
    "log_to_driver": '("x")',
    "remove_process_set": "(hvd.add_process_set([0]))",
    "start_timeline": '("x")',
    "run": "(main, num_proc=2)",
    "compress": "(tensor)",
    "decompress": "(tensor, dtype)",
}
THROUGH = {
    "horovod.runner": "run(main, num_proc=2)",
    "horovod.runner.common": "util.hosts.parse_hosts('a:1')",
    "horovod.runner.elastic": "settings.ElasticSettings()",
    "horovod.runner.http": "http_server.RendezvousServer()",
    "horovod.runner.util": "network.get_local_host_addresses()",
    "horovod.torch.compression": "Compression.none",
    "horovod.torch.elastic": "init()",
    "horovod.torch.elastic.sampler": "ElasticSampler(data)",
    "horovod.torch.elastic.state": "TorchState()",
    "horovod.torch.functions": "broadcast_object(1)",
    "horovod.torch.mpi_lib_v2": "horovod_torch_reset()",
    "horovod.torch.mpi_ops": "rank()",
    "horovod.torch.mpi_ops.mpi_lib": "horovod_torch_reset()",
    "horovod.torch.optimizer": "size()",
    "horovod.torch.sync_batch_norm": "SyncBatchNorm(8)",
}
OBJECTS = {
    "horovod.torch.ProcessSet": "hvd.add_process_set([0])",
    "horovod.torch.elastic.TorchState": "hvd.elastic.TorchState(model=net)",
    "horovod.torch.elastic.ElasticSampler": "hvd.elastic.ElasticSampler(data)",
    OPTIMIZER: "hvd.DistributedOptimizer(opt)",
    "sparkdl.HorovodRunner": "sparkdl.HorovodRunner(np=2)",
}
HEAD = """\
import horovod.torch as hvd
import torch
{imports}


def main():
    pass


hvd.init()
net = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""


@cache
def table(name: str) -> tuple[tuple[str, ...], ...]:
    lines = (FOLDER / name).read_text("utf-8").splitlines()[1:]
    return tuple(tuple(line.split("\t")) for line in lines)


MODULES = [symbol for symbol, kind in table("horovod_symbols.tsv") if kind == "module"]
METHODS = [symbol for (symbol,) in table("horovod_methods.tsv")]
VALUES = [symbol for symbol, kind in table("horovod_symbols.tsv") if kind == "value"]
FUNCTIONS = [symbol for symbol, kind in table("horovod_symbols.tsv") if kind in ("function", "class")]
FUNCTIONS = [symbol for symbol in FUNCTIONS if symbol not in METHODS]


def program(symbol: str, use: str) -> str:
    """A program whose last line uses ``symbol``: ``attribute``, ``called``, or what is known of a module."""
    owner, _, name = symbol.rpartition(".")
    called = CALLS.get(name, "()") if use == "called" else ""
    if symbol in THROUGH:
        return HEAD.format(imports=f"import {symbol}") + f"{symbol}.{THROUGH[symbol]}\n"
    if owner in OBJECTS and symbol in METHODS:
        return HEAD.format(imports="import sparkdl") + f"it = {OBJECTS[owner]}\nit.{name}{called or ''}\n"
    module = symbol
    while module not in MODULES and "." in module:
        module = module.rpartition(".")[0]
    imports = "" if module == "horovod.torch" else f"import {module}"
    return HEAD.format(imports=imports) + f"{'' if called else 'it = '}{symbol}{called}\n"


def findings(symbol: str, use: str, folder: Path) -> list[Diagnostic]:
    source = program(symbol, use)
    result = run({"program.py": source.encode()}, Settings(jobs=1), folder).result
    last = source.count("\n")
    return [found for found in result.findings if found.line == last]


def case(symbol: str, use: str) -> object:
    return pytest.param(symbol, use, id=f"{symbol}-{use}")


CASES = [
    *(case(symbol, use) for symbol in (*FUNCTIONS, *METHODS) for use in ("called", "attribute")),
    *(case(symbol, "attribute") for symbol in VALUES),
    *(case(symbol, "through") for symbol in MODULES),
]


def test_the_lists_are_whole() -> None:
    assert len(MODULES) == 15
    assert len(FUNCTIONS) + len(VALUES) == 202
    assert {method.rpartition(".")[0] for method in METHODS} >= OBJECTS.keys()


@pytest.mark.parametrize(("symbol", "use"), CASES)
def test_symbol_has_a_rule_of_its_own(symbol: str, use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = findings(symbol, use, tmp_path)
    wanted = REGISTRY.canonical(symbol)
    own = [one for one in found if one.symbol == wanted or (use == "through" and one.symbol.startswith("horovod"))]
    assert own, [(one.rule, one.symbol, one.message) for one in found]
    assert not any(one.rule in NOT_THEIR_OWN for one in own), own
    assert use == "through" or REGISTRY.rule_for(wanted).id == own[0].rule


def test_no_two_symbols_share_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told: dict[str, set[str]] = defaultdict(set)
    for symbol in (*FUNCTIONS, *METHODS, *VALUES):
        for use in ("called", "attribute") if symbol not in VALUES else ("attribute",):
            wanted = REGISTRY.canonical(symbol)
            for one in findings(symbol, use, tmp_path):
                if one.symbol == wanted:
                    told[one.message].add(wanted)
    shared = {message: symbols for message, symbols in told.items() if len(symbols) > 1}
    assert shared == {}
