from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import libcst
import pytest

from migrator import engine, workers
from migrator.config import Settings
from migrator.engine import migrate, migrate_text
from migrator.result import Result

USES = "import horovod.torch as hvd\n\nhvd.init()\nprint(hvd.rank())\n"
ONE, TWO = Settings(jobs=1), Settings(jobs=2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def status(result: Result) -> dict[str, str]:
    return {file.path: file.status for file in result.files}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"import horovod\nx = '\xe9'\n", "line 2: not valid utf-8: byte 0xe9 at offset 20"),
        (b"# coding: klingon\nimport horovod\n", "line 1: unknown encoding"),
        (b"import horovod\0\n", "line 1: contains a NUL byte"),
        (b"import horovod\ndef f(:\n", "line 2: broken syntax: invalid syntax"),
        (b"import horovod\nif x:\npass\n", "line 3: broken syntax: expected an indented block"),
        (b"import horovod\nprint 'x'\n", "line 2: Python 2 source"),
        (b"import horovod\nx = (1,\n", "line 2: broken syntax"),
        (b"import horovod\nif x:\n\ty\n        z\n", "line 4: broken syntax"),
        (b"import horovod\nx = 08\n", "line 2: "),
        (b"import horovod\nexec 'x'\n", "line 2: Python 2 source"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_left(data: bytes, reason: str, folder: Path) -> None:
    (folder / "bad.py").write_bytes(data)
    (folder / "good.py").write_text(USES)
    result = migrate([Path(".")], ONE)
    bad = next(file for file in result.files if file.path == "bad.py")
    assert (bad.status, bad.before, bad.after) == ("failed", data, data)
    assert bad.reason.startswith(reason)
    assert "\n" not in bad.reason
    assert [f.class_ for f in result.findings if f.path == "bad.py"] == ["blocked"]
    assert status(result)["good.py"] == "changed"
    assert [(p.name, p.status) for p in result.programs] == [("bad.py", "blocked"), ("good.py", "migrated")]


@pytest.mark.parametrize("data", [b"", b"\n", b"# horovod\n", b"\xef\xbb\xbf", b"'''uses horovod'''", b"# horovod"])
def test_a_file_without_code_is_left(data: bytes, folder: Path) -> None:
    (folder / "empty.py").write_bytes(data)
    result = migrate([Path(".")], ONE)
    assert status(result) == {"empty.py": "unchanged"}
    assert not result.findings
    assert not result.programs


def test_a_path_that_does_not_exist(folder: Path) -> None:
    result = migrate([Path("gone.py")], ONE)
    assert [(file.path, file.status) for file in result.unread] == [("gone.py", "failed")]
    assert result.unread[0].reason == "does not exist"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission(folder: Path) -> None:
    (folder / "a.py").write_text(USES)
    (folder / "a.py").chmod(0)
    result = migrate([Path(".")], ONE)
    assert "permission" in result.unread[0].reason.lower()


def test_a_file_that_the_system_will_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.py").write_text(USES)
    (folder / "b.py").write_text(USES)
    real = engine.scan

    def scan(files, *mentions):
        found = real(files, *mentions)
        return [(p, PermissionError(13, "Permission denied") if p.name == "a.py" else d) for p, d in found]

    monkeypatch.setattr(engine, "scan", scan)
    result = migrate([Path(".")], ONE)
    assert status(result) == {"a.py": "failed", "b.py": "changed"}
    assert "permission" in result.unread[0].reason.lower()


def test_a_loop_of_links(folder: Path) -> None:
    (folder / "pkg").mkdir()
    (folder / "pkg" / "a.py").write_text(USES)
    (folder / "pkg" / "again").symlink_to(folder / "pkg", target_is_directory=True)
    (folder / "up").symlink_to(folder, target_is_directory=True)
    assert status(migrate([Path(".")], ONE)) == {"pkg/a.py": "changed"}


@pytest.mark.parametrize("jobs", [2, 5])
def test_processes_do_not_change_the_result(jobs: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_WORTH_A_PROCESS", 1)
    for n in range(12):
        body = "x = 1\n" * (n * 7 % 5) + ("hvd.join()\n" if n % 4 == 0 else "")
        (folder / f"p{n}.py").write_text(USES + body if n % 5 else f"import p{n + 1}\n{USES}")
    (folder / "bad.py").write_text(USES + "def f(:\n")
    seen: list[tuple[int, int]] = []
    alone = migrate([Path(".")], ONE)
    assert migrate([Path(".")], replace(TWO, jobs=jobs), lambda done, total: seen.append((done, total))) == alone
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))


@pytest.mark.parametrize("signal", [True, False])
def test_a_worker_that_dies_takes_only_its_program_along(
    signal: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = workers.migrate_program

    def migrate_program(inputs, settings):
        if any(b"crash" in given.data for given in inputs):
            os.kill(os.getpid(), 9) if signal else os._exit(3)
        return real(inputs, settings)

    monkeypatch.setattr(workers, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(workers, "migrate_program", migrate_program)
    for n in range(4):
        (folder / f"p{n}.py").write_text(USES + ("# crash\n" if n == 2 else ""))
    result = migrate([Path(".")], TWO)
    assert status(result) == {"p0.py": "changed", "p1.py": "changed", "p2.py": "failed", "p3.py": "changed"}
    assert "crash" in result.unread[0].reason
    assert result.unread[0].after == result.unread[0].before


def test_an_error_of_the_tool_in_a_process_is_the_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def migrate_program(inputs, settings):
        raise KeyError("gone")

    monkeypatch.setattr(workers, "migrate_program", migrate_program)
    (folder / "a.py").write_text(USES)
    result = migrate([Path(".")], ONE)
    assert status(result) == {"a.py": "failed"}
    assert "KeyError" in result.unread[0].reason


def test_a_panic_of_the_parser_is_the_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        pass

    def parse_module(text):
        raise Panic

    monkeypatch.setattr(libcst, "parse_module", parse_module)
    (folder / "a.py").write_text(USES)
    [failed] = migrate([Path(".")], ONE).unread
    assert failed.reason.endswith("the parser failed: Panic")


def test_files_outside_the_given_paths_are_read_and_named(folder: Path) -> None:
    (folder / "pyproject.toml").touch()
    (folder / "a.py").write_text("import b\n" + USES)
    (folder / "b.py").write_text(USES)
    result = migrate([Path("a.py")], ONE)
    assert status(result) == {"a.py": "changed", "b.py": "skipped"}
    assert ("b.py", "HVD007", "blocked") in [(f.path, f.rule, f.class_) for f in result.findings]
    assert [p.status for p in result.programs] == ["blocked"]
    assert not migrate([Path("a.py"), Path("b.py")], ONE).blocked


def test_other_kinds_of_files_are_named(folder: Path) -> None:
    (folder / "notes.txt").write_text("How to:\nstart Horovod\n")
    [finding] = migrate([Path(".")], ONE).findings
    assert (finding.path, finding.line, finding.column, finding.rule) == ("notes.txt", 2, 7, "HVD010")


@pytest.mark.parametrize(
    ("text", "changed"), [(USES, True), ("x = 1\n", False), ("import horovod.torch as hvd\nhvd.join()\n", False)]
)
def test_one_text(text: str, changed: bool) -> None:
    result = migrate_text("x.py", text.encode(), ONE)
    [file] = result.files
    assert (file.status == "changed") is changed
    assert (file.after != text.encode()) is changed


def test_settings_that_leave_a_rule_out_block(folder: Path) -> None:
    result = migrate_text("x.py", USES.encode(), replace(ONE, select=("HVD101",)))
    assert [f.message for f in result.findings if f.class_ == "blocked"] == [
        "horovod.torch.rank stays: HVD103 is not selected"
    ]
