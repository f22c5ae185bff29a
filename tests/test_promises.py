"""Never silently wrong: small programs whose migration must keep the meaning, be refused, or name the difference."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from update_fixtures import Outcome, run

from migrator.config import Settings
from migrator.registry import load_rules

HEAD = "import horovod.torch as hvd\nimport torch\n\nhvd.init()\nnet = torch.nn.Linear(4, 1)\n"
SGD = "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
WRAP = "opt = hvd.DistributedOptimizer(opt, named_parameters=net.named_parameters())\n"
BROADCAST = "hvd.broadcast_parameters(net.state_dict(), root_rank=0)\n"
STEP = "for x in batches:\n    opt.zero_grad()\n    net(x).mean().backward()\n    opt.step()\n"


def params(values: dict[str, Any], wrong: tuple[str, ...], reason: str) -> list:
    mark = pytest.mark.xfail(strict=True, reason=reason)
    return [pytest.param(value, id=name, marks=[mark] if name in wrong else []) for name, value in values.items()]


@pytest.fixture
def migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def migrate(sources: str | dict[str, str], **settings) -> Outcome:
        given = {"program.py": sources} if isinstance(sources, str) else sources
        return run({name: text.encode() for name, text in given.items()}, Settings(jobs=1, **settings), tmp_path)

    return migrate


def text(outcome: Outcome, name: str = "program.py") -> str:
    return outcome.written.get(name, b"").decode()


def blocked(outcome: Outcome) -> bool:
    return bool(outcome.result.blocked)


def says(outcome: Outcome, *words: str) -> bool:
    messages = [found.message for found in outcome.result.findings if found.class_ != "exact"]
    return any(all(word in message for word in words) for message in messages)


def test_a_hook_never_stands_beside_a_closure(migrated) -> None:
    closure = (
        "def closure():\n    opt.zero_grad()\n    loss = net(x).mean()\n    loss.backward()\n"
        "    return loss\nopt.step(closure)\n"
    )
    outcome = migrated(HEAD + SGD + WRAP + BROADCAST + closure)
    assert blocked(outcome) or "register_step_pre_hook" not in text(outcome)


@pytest.mark.parametrize("gradients", ["auto", "optimizer"])
def test_no_method_of_horovods_optimizer_is_left(migrated, gradients: str) -> None:
    loop = STEP.replace(
        "    opt.step()",
        "    opt.synchronize()\n    quiet = opt.skip_synchronize()\n    with quiet:\n        opt.step()",
    )
    outcome = migrated(HEAD + SGD + WRAP + BROADCAST + loop, gradients=gradients)
    assert blocked(outcome) or "skip_synchronize" not in text(outcome)


@pytest.mark.parametrize("method", ["synchronize", "skip_synchronize"])
def test_no_method_of_horovods_optimizer_is_left_in_a_file_without_horovod(migrated, method: str) -> None:
    call = (
        "optimizer.synchronize()\n" if method == "synchronize" else "with optimizer.skip_synchronize():\n        pass\n"
    )
    loop = f"def step(optimizer, loss):\n    loss.backward()\n    {call}    optimizer.step()\n"
    main = "from loop import step\n" + HEAD + SGD + WRAP + BROADCAST + "step(opt, net(x).mean())\n"
    outcome = migrated({"main.py": main, "loop.py": loop})
    assert blocked(outcome) or method not in text(outcome, "loop.py")


def test_a_name_that_another_file_imports_is_not_taken_away(migrated) -> None:
    outcome = migrated(
        {"comm.py": "from horovod.torch import rank\n", "main.py": "from comm import rank\n\nprint(rank())\n"}
    )
    taken = "rank" not in text(outcome, "comm.py") and "from comm import rank" in text(outcome, "main.py")
    assert blocked(outcome) or not taken


TAKEN = {
    "from the file": {"main.py": "from comm import rank\n\nprint(rank())\n"},
    "through the file": {"main.py": "import comm\n\nprint(comm.rank())\n"},
    "through the file by another name": {"main.py": "import comm as c\n\nprint(c.rank())\n"},
    "through the file's module": {"main.py": "import comm\n\nprint(comm.hvd.rank())\n"},
    "through its name as text": {"main.py": "import comm\n\nprint(getattr(comm, 'rank')())\n"},
    "from a file between": {"mid.py": "from comm import rank\n", "main.py": "from mid import rank\n\nprint(rank())\n"},
    "in a function": {"main.py": "def f():\n    from comm import rank\n\n    return rank()\n\n\nprint(f())\n"},
}


@pytest.mark.parametrize(
    "others", params(TAKEN, tuple(TAKEN), "what other files take from this one, or run by importing it, is lost")
)
def test_every_way_to_take_horovod_from_another_file_still_runs(migrated, others: dict[str, str]) -> None:
    comm = "import horovod.torch as hvd\nfrom horovod.torch import rank\n\nhvd.init()\n"
    outcome = migrated({"comm.py": comm} | others)
    if blocked(outcome):
        return
    for name, data in outcome.written.items():
        Path(name).write_bytes(data)
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "PYTHONPATH")}
    done = subprocess.run([sys.executable, "main.py"], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "0\n", done.stderr


@pytest.mark.xfail(strict=True, reason="an average that a call decides is asked for twice")
def test_an_argument_is_evaluated_once(migrated) -> None:
    call = "hvd.init()\nprint(hvd.allreduce(torch.ones(1), average=asked()))\n"
    outcome = migrated("import horovod.torch as hvd\nimport torch\n" + call)
    assert blocked(outcome) or text(outcome).count("asked()") == 1


def test_a_label_of_none_means_the_mean(migrated) -> None:
    source = (
        "import horovod.torch as hvd\nimport torch\n\ndef mean(x, label=None):\n"
        "    return hvd.allreduce(torch.tensor(x), label).item()\n"
    )
    outcome = migrated(source)
    namespace: dict = {}
    if not blocked(outcome):
        exec(text(outcome), namespace)
        namespace |= {"all_reduce_mean": lambda tensor: tensor, "all_reduce": lambda *_: pytest.fail("taken for a sum")}
        assert namespace["mean"](2.0) == 2.0


ALONE = {
    "import under a condition": (
        "import sys\n\nif sys:\n    import horovod.torch as hvd\n\n    hvd.init()\n    print(hvd.size())\n"
    ),
    "import under the main guard": (
        "if __name__ == '__main__':\n    import horovod.torch as hvd\n\n    hvd.init()\n    print(hvd.size())\n"
    ),
    "import in a try": (
        "try:\n    import horovod.torch as hvd\nexcept ImportError as error:\n"
        "    raise SystemExit from error\nhvd.init()\nprint(hvd.size())\n"
    ),
    "import under a with": (
        "import contextlib\nwith contextlib.suppress(KeyError):\n    import horovod.torch as hvd\n"
        "hvd.init()\nprint(hvd.size())\n"
    ),
    "import after code": "x = 1\nimport horovod.torch as hvd\nhvd.init()\nprint(hvd.size())\n",
    "import after a function": "def f():\n    return hvd.size()\nimport horovod.torch as hvd\nhvd.init()\nprint(f())\n",
    "import on a line with code": "import horovod.torch as hvd; hvd.init(); print(hvd.size())\n",
    "import in two places": "import horovod.torch as hvd\nhvd.init()\nimport horovod.torch as hvd\nprint(hvd.size())\n",
    "import in a class": "class C:\n    import horovod.torch as hvd\n    hvd.init()\n    n = hvd.size()\nprint(C.n)\n",
    "import in a loop": "for _ in range(1):\n    import horovod.torch as hvd\n    hvd.init()\nprint(hvd.size())\n",
    "import in a function": (
        "def f():\n    import horovod.torch as hvd\n    hvd.init()\n    return hvd.size()\nprint(f())\n"
    ),
    "import in a method": (
        "class C:\n    def f(self):\n        import horovod.torch as hvd\n        hvd.init()\n"
        "        return hvd.size()\nprint(C().f())\n"
    ),
    "import in a function after use of a helper": (
        "import horovod.torch as h\nh.init()\ndef f():\n    import horovod.torch as hvd\n"
        "    return hvd.size()\nprint(f())\n"
    ),
    "another name": "import horovod.torch as hvd\nh = hvd\nh.init()\nprint(h.size())\n",
    "from import": "from horovod.torch import init as start, size\nstart()\nprint(size())\n",
    "only code": "import horovod.torch as hvd\nprint((hvd.init(), hvd.size())[1])\n",
}


@pytest.mark.parametrize("source", ALONE.values(), ids=ALONE)
def test_a_program_started_alone_runs(migrated, capsys: pytest.CaptureFixture, source: str) -> None:
    import torch.distributed as dist

    outcome = migrated(source)
    try:
        exec(text(outcome) or "print(1)", {"__name__": "__main__"})
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    assert capsys.readouterr().out == "1\n"
    assert blocked(outcome) or text(outcome)


def test_torch_is_not_imported_earlier_than_before(migrated) -> None:
    source = "import os\n\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\nimport horovod.torch as hvd\n\nhvd.init()\n"
    after = text(migrated(source))
    assert after.index("os.environ[") < after.index("import torch")


def test_a_second_sum_is_named(migrated) -> None:
    wrap = WRAP.replace("))", "), op=hvd.Sum)")
    outcome = migrated(
        HEAD + SGD + wrap + BROADCAST + STEP.replace("    opt.step", "    opt.synchronize()\n    opt.step")
    )
    assert blocked(outcome) or says(outcome, "twice")


def test_moments_that_horovod_dropped_are_named(migrated) -> None:
    load = "opt = torch.optim.Adam(net.parameters())\nopt.load_state_dict(torch.load('opt.pt'))\n"
    outcome = migrated(HEAD + load + BROADCAST + "hvd.broadcast_optimizer_state(opt, root_rank=0)\n" + WRAP + STEP)
    assert says(outcome, "Horovod", "drop") or says(outcome, "Horovod", "threw")


NUMBERS = {
    "gradient_predivide_factor=3.0": "predivide",
    "op=hvd.Adasum if flag else hvd.Average": "Adasum",
    "compression=hvd.Compression.fp16": "fp16",
    "backward_passes_per_step=2": "accumulated",
    "op=hvd.Sum": "summed",
}


@pytest.mark.parametrize("gradients", ["auto", "ddp", "optimizer"])
@pytest.mark.parametrize("option", NUMBERS)
def test_what_changes_the_numbers_is_named(migrated, option: str, gradients: str) -> None:
    outcome = migrated(HEAD + SGD + WRAP.replace("))", f"), {option})") + BROADCAST + STEP, gradients=gradients)
    assert says(outcome, NUMBERS[option])


def test_the_reason_is_the_users_wish_where_it_is(migrated) -> None:
    outcome = migrated(HEAD + SGD + WRAP + BROADCAST + STEP, gradients="optimizer")
    assert not says(outcome, "because shown from the code")
    assert says(outcome, "gradients averaged at the optimizer")


def test_partial_keeps_an_import_that_other_files_ask_for(migrated) -> None:
    outcome = migrated("import horovod.torch as hvd\n\n__all__ = ['hvd']\n", partial=True)
    assert "import horovod.torch as hvd" in (text(outcome) or "import horovod.torch as hvd")


@pytest.mark.parametrize(
    "late",
    [
        "other = net\n",
        "net.cuda()\n",
        "net = torch.compile(net)\n",
        "Engine(net)\n",
        "f = lambda m: m(x)\nf(net)\n",
        "nets = [net]\n",
    ],
)
def test_no_wrap_where_the_model_is_used_out_of_sight(migrated, late: str) -> None:
    outcome = migrated(HEAD + SGD + WRAP + BROADCAST + late + STEP)
    assert "DDP(" not in text(outcome)


@pytest.mark.parametrize(
    "loop",
    [
        "for x in batches:\n    net(x).mean().backward()\n    net(x).mean().backward()\n    opt.step()\n",
        "for i, x in enumerate(batches):\n    net(x).mean().backward()\n    if i % 2:\n        opt.step()\n",
        "for x in batches:\n    for part in x:\n        net(part).mean().backward()\n    opt.step()\n",
        "for x in batches:\n    loss = net(x).mean() + net(x).std()\n    loss.backward()\n    opt.step()\n",
        (
            "for x in batches:\n    if bad(x):\n        opt.step()\n        continue\n"
            "    net(x).mean().backward()\n    opt.step()\n"
        ),
        (
            "for x in batches:\n    try:\n        net(x).mean().backward()\n    except RuntimeError:\n"
            "        pass\n    opt.step()\n"
        ),
        "for x in batches:\n    loss = criterion(x)\n    loss.backward()\n    opt.step()\n",
    ],
)
def test_no_wrap_where_a_step_is_not_one_forward_and_one_backward(migrated, loop: str) -> None:
    outcome = migrated(HEAD + SGD + WRAP + BROADCAST + loop)
    assert not blocked(outcome)
    assert "DDP(" not in text(outcome)


GUARDED = {
    "a function that one rank calls": "def show(x):\n    print(net(x))\n\n\nif hvd.rank() == 0:\n    show(1)\n",
    "a function that a function of one rank calls": (
        "def show(x):\n    print(net(x))\n\n\ndef report():\n    show(1)\n\n\nif hvd.rank() == 0:\n    report()\n"
    ),
    "a conditional expression": "out = net(x) if hvd.rank() == 0 else None\n",
    "the other branch": "if hvd.rank():\n    pass\nelse:\n    net(x)\n",
    "and": "hvd.rank() == 0 and net(x)\n",
    "a variable": "first = hvd.rank() == 0\nif first:\n    net(x)\n",
    "a while loop": "while hvd.rank() == 0:\n    net(x)\n    break\n",
    "an early return": "def show(x):\n    if hvd.rank() > 0:\n        return\n    net(x)\n\n\nshow(1)\n",
    "an early continue": "for x in y:\n    if hvd.rank() > 0:\n        continue\n    net(x)\n",
    "an early exit": "import sys\nif hvd.rank() > 0:\n    sys.exit()\nnet(x)\n",
    "a parameter": "def show(m):\n    print(m(x))\n\n\nif hvd.rank() == 0:\n    show(net)\n",
    "a size": "if hvd.local_rank() == 0:\n    net(x)\n",
}


@pytest.mark.parametrize("late", GUARDED.values(), ids=GUARDED)
def test_a_forward_of_some_ranks_does_not_go_through_ddp(migrated, late: str) -> None:
    outcome = migrated(HEAD + SGD + WRAP + BROADCAST + STEP + late)
    after = text(outcome)
    assert not blocked(outcome)
    assert "DDP(" not in after or ".module(" in after or "show(net.module)" in after


@pytest.mark.xfail(
    strict=True, reason="helpers are put above the imports where another name takes the place of an import"
)
def test_imports_stand_above_what_is_emitted(migrated) -> None:
    lines = text(migrated("import horovod.torch as hvd\nh = hvd\nh.init()\nprint(h.size())\n")).splitlines()
    code = next(n for n, line in enumerate(lines) if line.startswith("def "))
    assert not [line for line in lines[code:] if line.startswith(("import ", "from "))]


def test_helpers_of_a_package_are_found_from_every_file(migrated) -> None:
    use = (
        "import horovod.torch as hvd\nimport torch\n\n\ndef mean(x):\n"
        "    return hvd.allreduce(torch.tensor(x)).item()\n"
    )
    main = "import horovod.torch as hvd\n\nfrom .metrics import mean\n\nhvd.init()\nhvd.allreduce\nprint(mean(2.0))\n"
    files = {"jobs/__init__.py": "", "jobs/metrics.py": use, "jobs/main.py": main.replace("hvd.allreduce\n", "")}
    outcome = migrated(files)
    assert not blocked(outcome)
    for name, data in (files | {k: v.decode() for k, v in outcome.written.items()}).items():
        Path(name).write_text(data)
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-m", "jobs.main"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout == "2.0\n", done.stderr


def test_a_module_of_helpers_takes_no_name_that_is_there(migrated) -> None:
    use = "import horovod.torch as hvd\nimport torch\n\nhvd.init()\nprint(hvd.allreduce(torch.tensor(1.0)).item())\n"
    files = {"a.py": "import b\n" + use, "b.py": use, "collectives.py": "MINE = 1\n"}
    outcome = migrated(files)
    assert outcome.written.get("collectives.py", b"MINE = 1\n") == b"MINE = 1\n"


def test_an_error_in_a_rule_ends_no_run(migrated, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(site, context):
        raise KeyError("gone")

    registry = load_rules()
    symbol = "horovod.torch.shutdown"
    monkeypatch.setitem(registry.by_symbol, symbol, replace(registry.by_symbol[symbol], answer=broken))
    outcome = migrated(
        {"a.py": "import horovod.torch as hvd\nhvd.shutdown()\n", "b.py": "import horovod.torch as hvd\nhvd.rank()\n"}
    )
    assert [p.status for p in outcome.result.programs] == ["blocked", "migrated"]
    assert any("KeyError" in found.message for found in outcome.result.findings)


@pytest.mark.parametrize("read", ["os.environ[NAME]", "os.environ.get(NAME, 0)", "os.getenv(NAME)"])
def test_a_variable_named_elsewhere_is_not_left_silently(migrated, read: str) -> None:
    source = f"import os\nimport horovod.torch as hvd\nNAME = 'OMPI_COMM_WORLD_RANK'\nhvd.init()\nrank = int({read})\n"
    outcome = migrated(source)
    assert blocked(outcome) or "OMPI_COMM_WORLD_RANK" not in text(outcome) or says(outcome, "OMPI_COMM_WORLD_RANK")


def test_a_variable_is_asked_for_and_read_by_one_name(migrated) -> None:
    source = (
        "import os\nimport horovod.torch as hvd\nhvd.init()\n"
        "if 'OMPI_COMM_WORLD_RANK' in os.environ:\n    rank = int(os.environ['OMPI_COMM_WORLD_RANK'])\n"
    )
    after = text(migrated(source))
    assert ("'OMPI_COMM_WORLD_RANK' in" in after) == ("environ['OMPI_COMM_WORLD_RANK']" in after)
