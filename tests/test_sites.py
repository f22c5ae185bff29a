from __future__ import annotations

import libcst as cst
import pytest

from migrator.api import Module
from migrator.bindings import index
from migrator.calls import Functions
from migrator.registry import load_rules
from migrator.sites import Found, Resolver, find_sites


def read(path: str, text: str, functions: Functions) -> Module:
    return Module(path, text, index(cst.parse_module(text)), frozenset(), functions)


def found(source: str, **others: str) -> Found:
    functions = Functions()
    modules = {name: read(f"{name}.py", text, functions) for name, text in others.items()}
    module = read("program.py", source, functions)
    resolver = Resolver(load_rules(), lambda _, name: modules.get(name.lstrip(".")))
    return find_sites(module, resolver.following([module, *modules.values()]))


def symbols(source: str, **others: str) -> list[str]:
    return [site.symbol.removeprefix("horovod.torch.") for site in found(source, **others).sites]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import horovod.torch as hvd\nhvd.rank()\n", ["rank"]),
        ("import horovod.torch\nhorovod.torch.rank()\n", ["rank"]),
        ("from horovod import torch\ntorch.rank()\n", ["rank"]),
        ("import horovod as h\nh.torch.rank()\n", ["rank"]),
        ("from horovod.torch import rank\nrank()\n", ["rank"]),
        ("from horovod.torch import rank as r\nr()\n", ["rank"]),
        ("from horovod.torch.mpi_ops import rank\nrank()\n", ["rank"]),
        ("from horovod.torch.compression import Compression\nCompression.fp16\n", ["Compression.fp16"]),
        ("import horovod.torch as hvd\nh = hvd\nh.rank()\n", ["rank"]),
        ("import horovod.torch as hvd\nh = hvd\ng = h\ng.rank()\n", ["rank"]),
        ("import horovod.torch as hvd\nhvd.Compression.none\n", ["Compression.none"]),
        ("import horovod.torch as hvd\nr = hvd.rank\nr()\n", ["rank"]),
        ("import horovod.torch as hvd\nhvd.rank().bit_length()\n", ["rank"]),
        ("import horovod.torch as hvd\nhvd.nothing()\n", ["nothing"]),
        ("import horovod\nhorovod.__version__\n", ["horovod.__version__"]),
        ("import horovod.torch as hvd\ndef f(hvd):\n    hvd.nothing()\n", []),
        (
            "try:\n    from horovod.torch.mpi_ops import rank\nexcept E:\n    from horovod.torch import rank\nrank()\n",
            ["rank"],
        ),
        ("import horovodx.torch as hvd\nhvd.rank()\n", []),
        ("from . import hvd\nhvd.rank()\n", []),
        ("import hvd\nhvd.rank()\n", []),
    ],
)
def test_symbols(source: str, expected: list[str]) -> None:
    assert symbols(source) == expected
    assert not found(source).notices


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ("import horovod.torch as hvd\nf(hvd)\n", ["HVD002"]),
        ("import horovod.torch as hvd\ngetattr(hvd, n)\n", ["HVD002"]),
        ("import horovod.torch as hvd\na = b = hvd\n", ["HVD002"]),
        ("import horovod.torch as hvd\ndel hvd\n", ["HVD002"]),
        ("import horovod.torch as hvd\nhvd.rank = 1\n", ["HVD002"]),
        ("import horovod.torch as hvd\nhvd.x += 1\n", ["HVD002"]),
        ("import horovod.torch as hvd\nhvd.x: int = 1\n", ["HVD002"]),
        ("import horovod.torch as hvd\ndel hvd.rank\n", ["HVD002"]),
        ("import horovod.torch as hvd\n__all__ = ['hvd']\n", ["HVD002"]),
        ("import horovod.torch as hvd\n__all__ += ['hvd']\n", ["HVD002"]),
        ("from horovod.torch import *\nnothing()\n", ["HVD003"]),
        ("def f(hvd):\n    hvd.rank()\n", ["HVD002"]),
        ("class A:\n    def f(self):\n        self.hvd.rank()\n", ["HVD002"]),
        ("import importlib\nimportlib.import_module(f'horovod.{x}')\n", ["HVD005"]),
        ("import importlib\nname = 'horovod.torch'\nimportlib.import_module(name)\n", ["HVD005"]),
        ("is_available('horovod')\n", ["HVD005"]),
        ("import horovod.torch as hvd\nhvd = 1\nhvd\n", ["HVD004"] * 3),
        ("import importlib\nimportlib.import_module('horovod.torch')\n", ["HVD005"]),
        ("__import__('horovod.torch')\n", ["HVD005"]),
    ],
)
def test_what_cannot_be_followed_is_blocked(source: str, rules: list[str]) -> None:
    notices = found(source).notices
    assert [rule for rule, _ in notices] == rules
    assert {finding.class_ for _, finding in notices} == {"blocked"}
    assert all(finding.message for _, finding in notices)


@pytest.mark.parametrize("value", ["horovod", "Horovod", "horovod.torch.rank", "horovod.torch"])
def test_a_string_that_names_horovod_is_for_review(value: str) -> None:
    [(rule, finding)] = found(f"x = '{value}'\n").notices
    assert (rule, finding.class_) == ("HVD005", "review")


@pytest.mark.parametrize("value", ["uses horovod.torch", "hvd", "horovodrun", "horovod is fast", ""])
def test_other_strings_are_prose(value: str) -> None:
    assert not found(f"import horovod.torch as hvd\nx = '{value}'\n").notices


@pytest.mark.parametrize(
    ("source", "others", "expected"),
    [
        ("from comm import hvd\nhvd.rank()\n", {"comm": "import horovod.torch as hvd\n"}, ["rank"]),
        ("from comm import rank\nrank()\n", {"comm": "from horovod.torch import rank\n"}, ["rank"]),
        ("import comm\ncomm.hvd.rank()\n", {"comm": "import horovod.torch as hvd\n"}, ["rank"]),
        ("import comm\ncomm.rank()\n", {"comm": "from horovod.torch import rank\n"}, ["rank"]),
        ("import comm as c\nc.rank()\n", {"comm": "from horovod.torch import rank\n"}, ["rank"]),
        ("from a import x\nx.rank()\n", {"a": "from b import x\n", "b": "import horovod.torch as x\n"}, ["rank"]),
        ("from a import x\nx()\n", {"a": "from b import x\n", "b": "from a import x\n"}, []),
        ("from comm import rank\nrank()\n", {"comm": "def rank():\n    return 0\n"}, []),
        ("import horovod.torch as hvd\ndef f(hvd):\n    hvd.rank()\nf(hvd)\n", {}, ["rank"]),
        ("from horovod.torch import *\nsize()\n", {}, ["size"]),
        ("from horovod.torch import *\ndef size():\n    return 1\nsize()\nrank()\n", {}, ["rank"]),
        ("from horovod import *\ntorch.size()\n", {}, ["size"]),
        ("from comm import *\nhvd.rank()\n", {"comm": "import horovod.torch as hvd\n"}, ["rank"]),
        ("from a import *\nx.rank()\n", {"a": "from b import *\n", "b": "import horovod.torch as x\n"}, ["rank"]),
        ("from comm import *\nhvd.rank()\n", {"comm": "import torch\n"}, []),
    ],
)
def test_through_other_files(source: str, others: dict[str, str], expected: list[str]) -> None:
    assert symbols(source, **others) == expected


def test_a_site_knows_its_call_and_its_scope() -> None:
    called, plain = found("import horovod.torch as hvd\ndef f():\n    hvd.rank()\nx = hvd.rank\n").sites
    assert (called.call is None, plain.call is None) == (False, True)
    assert (called.scope.kind, called.home.kind, plain.scope.kind) == ("function", "module", "module")
    assert (called.is_discarded, plain.is_discarded) == (True, False)
    assert isinstance(plain.assigned_to, cst.Name)


def test_a_rule_may_answer_for_all_that_lies_under_a_module() -> None:
    source = (
        "from horovod.runner.common.util import hosts\nfrom horovod.runner import util\nhosts.parse()\nutil.a.b()\n"
    )
    assert symbols(source) == ["horovod.runner.common.util.hosts.parse", "horovod.runner.util.a.b"]
    rule_for = load_rules().rule_for
    assert rule_for("horovod.runner.common.util.hosts") is rule_for("horovod.runner.common.a") is not None
    assert rule_for("horovod.runner.common") is None


@pytest.mark.parametrize(
    "others",
    [
        {"a": "from b import name\n", "b": "from a import name\n"},
        {"a": "from a import name\n"},
        {"a": "from a.name import other\nfrom a import name\n"},
    ],
)
def test_files_that_import_a_name_from_one_another(others: dict[str, str]) -> None:
    source = (
        "import horovod.torch as hvd\nfrom a.name.part import thing\nfrom a import name\nname.part.rank(hvd.rank())\n"
    )
    assert symbols(source, **others) == ["rank"]
