from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from migrator import write
from migrator.files import JOURNAL
from migrator.result import FileResult
from migrator.write import Recovery, WriteError, patch, recover, write_files

ROOT = str(Path(write.__file__).parents[1])
Changes = list[tuple[Path, bytes, bytes]]

KILLED = """
import os, signal, sys
from pathlib import Path
from migrator.write import write_files
name, count = sys.argv[1], int(sys.argv[2])
real, calls = getattr(os, name), []
def deadly(*args, **named):
    if len(calls) == count:
        os.kill(os.getpid(), signal.SIGKILL)
    calls.append(args)
    return real(*args, **named)
setattr(os, name, deadly)
write_files([(Path(x), Path(x).read_bytes(), b"new " + Path(x).read_bytes()) for x in ("a.py", "s/b.py", "s/t/c.py")])
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Changes:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s" / "t").mkdir(parents=True)
    paths = [tmp_path / "a.py", tmp_path / "s" / "b.py", tmp_path / "s" / "t" / "c.py"]
    for path in paths:
        path.write_bytes(path.name.encode())
    return [(path, path.read_bytes(), b"new " + path.read_bytes()) for path in paths]


def kill_at(name: str, count: int) -> None:
    command = [sys.executable, "-c", KILLED, name, str(count)]
    assert subprocess.run(command, env={"PYTHONPATH": ROOT}).returncode == -signal.SIGKILL


def contents(program: Changes) -> list[bytes]:
    return [path.read_bytes() for path, _, _ in program]


def befores(program: Changes) -> list[bytes]:
    return [before for _, before, _ in program]


def afters(program: Changes) -> list[bytes]:
    return [after for _, _, after in program]


def leftovers() -> list[str]:
    return sorted(path.name for path in Path().rglob(".hvd-migrate-*"))


def test_write_all(program: Changes) -> None:
    program[1][0].chmod(0o750)
    write_files(program)
    assert contents(program) == afters(program)
    assert stat.S_IMODE(program[1][0].stat().st_mode) == 0o750
    assert not leftovers()


def test_write_nothing() -> None:
    write_files([])


def test_write_through_link(program: Changes) -> None:
    link = Path("link.py")
    link.symlink_to("s/b.py")
    write_files([(link, b"b.py", b"new")])
    assert link.is_symlink()
    assert program[1][0].read_bytes() == b"new"


def test_same_file_twice(program: Changes) -> None:
    Path("link.py").symlink_to("a.py")
    with pytest.raises(WriteError, match="twice"):
        write_files([*program, (Path("link.py"), b"a.py", b"x")])
    assert contents(program) == befores(program)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
def test_owner_is_kept(program: Changes) -> None:
    os.chown(program[0][0], 1234, 1235)
    write_files(program)
    assert (program[0][0].stat().st_uid, program[0][0].stat().st_gid) == (1234, 1235)


def test_read_only_file(program: Changes) -> None:
    program[2][0].chmod(0o444)
    with pytest.raises(WriteError, match="is read-only") as caught:
        write_files(program)
    assert caught.value.path == program[2][0].resolve()
    assert contents(program) == befores(program)
    assert not leftovers()


def test_changed_before(program: Changes) -> None:
    program[1][0].write_bytes(b"edited")
    with pytest.raises(WriteError, match="changed while hvd-migrate ran"):
        write_files(program)
    assert contents(program) == [b"a.py", b"edited", b"c.py"]
    assert not leftovers()


def test_changed_while_staging(program: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def edit(descriptor: int) -> None:
        program[1][0].write_bytes(b"edited")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", edit)
    with pytest.raises(WriteError, match="changed while hvd-migrate ran"):
        write_files(program)
    assert contents(program) == [b"a.py", b"edited", b"c.py"]
    assert not leftovers()


def test_missing_file(program: Changes) -> None:
    program[0][0].unlink()
    with pytest.raises(WriteError, match="does not exist"):
        write_files(program)
    assert not leftovers()


def test_disk_full_while_staging(program: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync, calls = os.fsync, iter(range(100))

    def fail(descriptor: int) -> None:
        if next(calls) == 3:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WriteError, match="no space left"):
        write_files(program)
    assert contents(program) == befores(program)
    assert not leftovers()


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), KeyboardInterrupt()])
def test_failing_replace_is_undone(program: Changes, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    replace, calls = os.replace, iter(range(100))

    def fail(source: Path, target: Path) -> None:
        if next(calls) == 2:
            raise error
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises((WriteError, KeyboardInterrupt)):
        write_files(program)
    assert contents(program) == befores(program)
    assert not leftovers()


def test_failing_undo_leaves_the_journal(program: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, calls = os.replace, iter(range(100))

    def fail(source: Path, target: Path) -> None:
        if next(calls) >= 2:
            raise OSError(5, "Input/output error")
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        with pytest.raises(WriteError, match="half written"):
            write_files(program)
    assert recover(Path()).finished == (program[2][0].resolve(),)
    assert contents(program) == afters(program)
    assert not leftovers()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_killed_between_replaces_is_finished(program: Changes, count: int) -> None:
    kill_at("replace", count)
    assert contents(program) == afters(program)[:count] + befores(program)[count:]
    assert JOURNAL in leftovers()
    assert recover(Path("s/t/c.py")) == Recovery(tuple(path.resolve() for path, _, _ in program[count:]))
    assert contents(program) == afters(program)
    assert not leftovers()
    assert recover(Path()) == Recovery()


@pytest.mark.parametrize("count", [2, 3])
def test_killed_while_staging_changes_nothing(program: Changes, count: int) -> None:
    kill_at("fsync", count)
    assert JOURNAL in leftovers()
    assert recover(Path()) == Recovery()
    assert contents(program) == befores(program)
    assert not leftovers()


def test_killed_while_undoing_goes_back(program: Changes) -> None:
    kill_at("replace", 2)
    entry = json.loads(Path(JOURNAL).read_bytes())["files"][1]
    program[0][0].write_bytes(b"a.py")
    (program[1][0].parent / entry["temp"]).write_bytes(b"b.py")
    assert contents(program) == [b"a.py", b"new b.py", b"c.py"]
    assert recover(Path()) == Recovery()
    assert contents(program) == befores(program)
    assert not leftovers()


def test_recover_leaves_edited_file(program: Changes) -> None:
    kill_at("replace", 1)
    program[1][0].write_bytes(b"edited")
    done = recover(Path())
    assert done.finished == (program[2][0].resolve(),)
    assert [(problem.path, problem.reason) for problem in done.problems] == [
        (program[1][0].resolve(), "changed since, left alone")
    ]
    assert contents(program) == [b"new a.py", b"edited", b"new c.py"]
    assert not leftovers()


def test_recover_with_damaged_temp(program: Changes) -> None:
    kill_at("replace", 1)
    (temp,) = Path("s/t").glob(".hvd-migrate-*.tmp")
    temp.write_bytes(b"evil")
    done = recover(Path())
    assert done.finished == (program[1][0].resolve(),)
    assert [problem.reason for problem in done.problems] == ["its new content is lost"]
    assert program[2][0].read_bytes() == b"c.py"


def test_write_recovers_first(program: Changes) -> None:
    kill_at("replace", 1)
    write_files([(program[0][0], b"new a.py", b"newer")])
    assert contents(program) == [b"newer", *afters(program)[1:]]
    assert not leftovers()


def test_two_runs_at_once(program: Changes) -> None:
    code = KILLED.replace("signal.SIGKILL", "signal.SIGSTOP")
    command = [sys.executable, "-c", code, "replace", "1"]
    with subprocess.Popen(command, env={"PYTHONPATH": ROOT}) as other:
        try:
            os.waitpid(other.pid, os.WUNTRACED)
            with pytest.raises(WriteError, match=f"process {other.pid}") as caught:
                write_files([(program[0][0], b"new a.py", b"x"), *program[1:]])
            assert caught.value.path.name == JOURNAL
            assert f"process {other.pid}" in recover(Path()).problems[0].reason
            assert contents(program) == [b"new a.py", b"b.py", b"c.py"]
        finally:
            other.send_signal(signal.SIGCONT)
        assert other.wait() == 0
    assert contents(program) == afters(program)
    assert not leftovers()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def forge(path: str, temp: str = ".hvd-migrate-0123456789abcdef-0.tmp") -> None:
    entry = {"path": path, "temp": temp, "before": digest(b"old"), "after": digest(b"evil")}
    Path("in", JOURNAL).write_text(json.dumps({"pid": os.getpid(), "files": [entry]}))


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("in", "out"):
        Path(folder).mkdir()
        Path(folder, "x.py").write_bytes(b"old")
        Path(folder, ".hvd-migrate-0123456789abcdef-0.tmp").write_bytes(b"evil")
    Path("in", "link").symlink_to("../out")
    Path("in", "link.py").symlink_to("../out/x.py")
    return tmp_path / "out" / "x.py"


def test_forged_journal_works_inside(victim: Path) -> None:
    forge("x.py")
    assert recover(Path("in")).finished == (victim.parents[1].resolve() / "in" / "x.py",)


@pytest.mark.parametrize("path", ["../out/x.py", "link/x.py", "link.py", "ABSOLUTE", "", ".", "a\0b", "\ud800"])
def test_journal_names_no_file_outside(victim: Path, path: str) -> None:
    forge(str(victim) if path == "ABSOLUTE" else path)
    done = recover(Path("in"))
    assert [problem.path.name for problem in done.problems] == [JOURNAL]
    assert not done.finished
    assert victim.read_bytes() == b"old"
    assert Path("in", JOURNAL).exists()


@pytest.mark.parametrize("temp", ["../out/x.py", "x.py", ".hvd-migrate-0123456789abcdef-0.tmp\n", ""])
def test_journal_deletes_only_temps(victim: Path, temp: str) -> None:
    forge("x.py", temp)
    assert [problem.path.name for problem in recover(Path("in")).problems] == [JOURNAL]
    assert Path("in/x.py").exists()
    assert victim.exists()


def test_temp_that_is_a_link_is_not_taken(victim: Path) -> None:
    forge("x.py")
    temp = Path("in/.hvd-migrate-0123456789abcdef-0.tmp")
    temp.unlink()
    temp.symlink_to(f"../out/{temp.name}")
    assert not recover(Path("in")).finished
    assert Path("in/x.py").read_bytes() == b"old"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"\xff", b'{"pid": -1, "files": []}', b'{"pid": 9e9, "files": []}', b"[" * 100_000],
)
def test_odd_journal_stays_and_stops_writing(victim: Path, content: bytes) -> None:
    Path("in", JOURNAL).write_bytes(content)
    assert "not a journal" in recover(Path("in")).problems[0].reason
    with pytest.raises(WriteError, match="not a journal"):
        write_files([(Path("in/x.py"), b"old", b"new")])
    assert Path("in/x.py").read_bytes() == b"old"


def test_journal_that_is_a_pipe_or_link(victim: Path) -> None:
    os.mkfifo(Path("in", JOURNAL))
    Path("out", JOURNAL).symlink_to("x.py")
    assert recover(Path("in")).problems
    assert recover(Path("out")).problems


def result(path: str, before: bytes, after: bytes) -> FileResult:
    return FileResult(path, "changed", before=before, after=after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\n"),
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
        (b"a\r\nb\nc\rd\n", b"a\nb\r\nc\rD\n"),
        (b"a\nb", b"a\nB"),
        (b"a\nb\n", b"a\nb"),
        (b"a\nb", b"a\nb\n"),
        (b"\xe9\nx\n", b"\xe8\nx\n\xff"),
        ("é\u2028\x85\n\x0c\x1c\n".encode(), "è\u2028\x85\n\x0c\x1c\n".encode()),
        (b"", b"x\n"),
        (b"x\n", b""),
        (b"--- a\n+++ b\n@@\n", b"--- b\n+++ a\n-- \n"),
        (b"".join(b"%d\n" % i for i in range(500)), b"".join(b"%d\n" % i for i in range(500) if i % 97)),
    ],
)
@pytest.mark.parametrize("name", ["x.py", "a b/c d.py", 'q"\\.py', "é\n\t.py", os.fsdecode(b"\xff.py")])
def test_git_applies_the_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, before: bytes, after: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, content in ((name, before), ("other.py", b"1\n")):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(content)
    changes = patch([result(name, before, after), result("other.py", b"1\n", b"2\n")])
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=changes, check=True)
    assert Path(name).read_bytes() == after
    assert Path("other.py").read_bytes() == b"2\n"


def test_patch_holds_changed_files_only() -> None:
    assert patch([FileResult("x.py", "failed", before=b"a", after=b"b"), result("y.py", b"a", b"a")]) == b""
    assert patch([result("x.py", b"a", b"b")]) == (
        b"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n"
        b"-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
    )


def test_patch_ends_a_name_with_spaces_as_git_does() -> None:
    assert b"diff --git a/a b.py b/a b.py\n--- a/a b.py\t\n+++ b/a b.py\t\n" in patch(
        [result("a b.py", b"1\n", b"2\n")]
    )
