from __future__ import annotations

import libcst as cst
import pytest

from migrator.bindings import index
from migrator.config import Settings
from migrator.edits import Import
from migrator.engine import migrate_text
from migrator.imports import Need, arrange, with_inner_imports

DIST = "import torch.distributed as dist"
USE = "hvd.size()\n"
NEW = "dist.get_world_size()\n"


def migrated(text: str) -> str:
    result = migrate_text("program.py", text.encode(), Settings(jobs=1))
    assert not result.blocked, result.findings
    return result.files[0].after.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import horovod.torch as hvd\n" + USE, DIST + "\n" + NEW),
        ("import horovod.torch as hvd\n\n" + USE, DIST + "\n\n" + NEW),
        ("import torch\nimport horovod.torch as hvd\n" + USE, "import torch\n" + DIST + "\n" + NEW),
        ("import horovod.torch as hvd\nimport torch\n" + USE, "import torch\n" + DIST + "\n" + NEW),
        (DIST + "\nimport horovod.torch as hvd\n" + USE, DIST + "\n" + NEW),
        (
            "import torch.distributed as d\nimport horovod.torch as hvd\n" + USE,
            "import torch.distributed as d\nd.get_world_size()\n",
        ),
        (
            "from torch import distributed\nimport horovod.torch as hvd\n" + USE,
            "from torch import distributed\ndistributed.get_world_size()\n",
        ),
        ("'''d'''\nimport horovod.torch as hvd\n" + USE, "'''d'''\n" + DIST + "\n" + NEW),
        (
            "from __future__ import annotations\nimport horovod.torch as hvd\n" + USE,
            "from __future__ import annotations\n" + DIST + "\n" + NEW,
        ),
        ("import horovod.torch as hvd, os\n" + USE + "os\n", "import os\n" + DIST + "\n" + NEW + "os\n"),
        ("import os, horovod.torch as hvd\n" + USE + "os\n", "import os\n" + DIST + "\n" + NEW + "os\n"),
        ("from horovod.torch import size\nsize()\n", DIST + "\n" + NEW),
        (
            "from horovod.torch import (\n    size,\n    rank,\n)\nsize()\nrank()\n",
            DIST + "\n" + NEW + "dist.get_rank()\n",
        ),
        ("import horovod.torch as hvd  # c\n" + USE, DIST + "  # c\n" + NEW),
        (
            "def f():\n    import horovod.torch as hvd\n    return hvd.size()\n",
            "def f():\n    import torch.distributed as dist\n    return dist.get_world_size()\n",
        ),
        ("import horovod.torch as hvd\n", ""),
    ],
)
def test_the_import_of_what_is_needed_takes_the_place_of_horovods(before: str, after: str) -> None:
    assert migrated(before) == after


@pytest.mark.parametrize("name", ["os", "torch", "dist", "DDP", "average_gradients", "init_process_group"])
def test_a_name_of_the_program_is_never_captured(name: str) -> None:
    text = (
        f"import horovod.torch as hvd\n{name} = 'mine'\nhvd.init()\n"
        "print(hvd.local_rank(), hvd.size(), hvd.cuda_built())\n"
        f"opt = hvd.DistributedOptimizer(make())\nprint({name})\n"
    )
    after = migrated(text)
    found = index(cst.parse_module(after))
    assert [binding.kind for binding in found.scope.bindings[name]] == ["assignment"]
    assert len(found.references[name]) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import horovod.torch as dist\ndist.size()\n", DIST + "\n" + NEW),
        (
            "from horovod.common.process_sets import TYPE_CHECKING\nif TYPE_CHECKING:\n    a\n",
            "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    a\n",
        ),
        (
            "import horovod.torch as dist\ndef f(dist):\n    dist\ndist.size()\n",
            "import torch.distributed as torch_distributed\ndef f(dist):\n    dist\n"
            "torch_distributed.get_world_size()\n",
        ),
    ],
)
def test_a_name_that_only_horovod_had_is_free(before: str, after: str) -> None:
    assert migrated(before) == after


def needs(text: str, *items: Import) -> tuple[list[str], dict[str, str]]:
    found = index(cst.parse_module(text))
    made = arrange(found, [Need(found.scope, item) for item in items], [])
    return [edit.template.text.strip() for edit in made.edits], dict(made.renames)


@pytest.mark.parametrize(
    ("text", "item", "lines", "renames"),
    [
        ("import os\n", Import("os"), [], {}),
        ("import os as o\n", Import("os"), [], {"os": "o"}),
        ("import sys\n", Import("os"), ["import os"], {}),
        ("x = 1\n", Import("os"), ["import os"], {}),
        ("os = 1\n", Import("os"), ["import os as os_2"], {"os": "os_2"}),
        ("def f(os): pass\n", Import("os"), ["import os as os_2"], {"os": "os_2"}),
        ("from a import b\n", Import("a", "b"), [], {}),
        ("from a import b as c\n", Import("a", "b"), [], {"b": "c"}),
        ("import a.b\n", Import("a"), [], {}),
        ("def f():\n    import os\n", Import("os"), ["import os"], {}),
    ],
)
def test_arrange(text: str, item: Import, lines: list[str], renames: dict[str, str]) -> None:
    assert needs(text, item) == (lines, renames)


def test_a_helper_for_a_module_without_imports_brings_its_own() -> None:
    helper = 'def f(x: a.T, y: int = 1) -> a.T:\n    """Doc."""\n    return x\n'
    text = with_inner_imports(helper, ["import a"], {"a"})
    assert text == 'def f(x, y=1):\n    """Doc."""\n    import a\n\n    return x\n'
    assert with_inner_imports(helper.replace("a.T", "int"), ["import a"], {"a"}).startswith(
        "def f(x: int, y: int = 1) -> int:"
    )
