"""Sources that no one would keep as a file: very long, deeply nested, repeated."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from migrator.config import Settings
from migrator.engine import migrate, migrate_text
from migrator.result import Result
from migrator.verify import comments

HEAD, TAIL = "import horovod.torch as hvd\n", "hvd.init()\nprint(hvd.rank())\n"


def migrated(text: str) -> tuple[Result, str]:
    result = migrate_text("program.py", text.encode(), Settings(jobs=1))
    return result, result.files[0].after.decode()


@pytest.mark.parametrize(
    "middle",
    [
        "QUERY = (\n" + "    'part'\n" * 600 + ")\n",
        "TOTAL = " + " + ".join(["1"] * 900) + "\n",
        "NESTED = " + "[" * 90 + "]" * 90 + "\n",
        "X = " + "-" * 900 + "1\n",
        "X = 1 " + "if 1 else 1 " * 300 + "\n",
        "X = f(0)" + ".g()" * 900 + "\n",
        "if 0:\n    pass\n" + "elif 0:\n    pass\n" * 600,
        "".join("    " * n + "if 1:\n" for n in range(90)) + "    " * 90 + "pass\n",
        "S = '''" + "line\n" * 20000 + "'''\n",
        "D = {" + "'key': 1, " * 20000 + "}\n",
    ],
    ids=["concatenation", "sum", "lists", "minus", "conditional", "calls", "elif", "if", "string", "dict"],
)
def test_long_and_deep_sources(middle: str) -> None:
    result, after = migrated(HEAD + middle + TAIL)
    if result.blocked:
        assert all(found.path == "program.py" and found.message for found in result.findings)
        assert after == HEAD + middle + TAIL
    else:
        assert middle in after
        assert after.endswith("init_process_group()\nprint(dist.get_rank())\n")


def test_twenty_thousand_lines() -> None:
    middle = "".join(f"x{n} = {n}\n" for n in range(20_000))
    start = time.process_time()
    result, after = migrated(HEAD + middle + "print(hvd.rank())\n")
    assert not result.blocked
    assert middle + "print(dist.get_rank())\n" in after
    assert time.process_time() - start < 60


def test_a_file_of_five_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = HEAD + "DATA = '''" + "0123456789\n" * 500_000 + "'''\n" + TAIL
    Path("big.py").write_text(text)
    result = migrate([Path("big.py")], Settings(jobs=1))
    after = result.files[0].after.decode()
    assert [file.status for file in result.files] == ["changed"]
    assert len(after) > len(text)
    assert after.endswith("print(dist.get_rank())\n")


def test_a_thousand_sites() -> None:
    calls = "".join(f"a{n} = hvd.rank() + hvd.size()  # {n}\n" for n in range(1000))
    result, after = migrated(HEAD + "hvd.init()\n" + calls)
    assert result.count_by_class()["exact"] == 2001
    assert "hvd." not in after
    assert comments(calls) - comments(after) == {}


def test_nothing_but_an_import_and_an_end() -> None:
    result, after = migrated("import horovod.torch as hvd")
    assert after.strip() == ""
    assert not result.blocked
