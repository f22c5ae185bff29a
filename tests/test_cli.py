"""The command line: what it prints where, what it writes, and its exit codes; the engine is a stand-in."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from click.testing import Result as Outcome

import migrator.engine
import migrator.write
from migrator import __version__, cli
from migrator.cli import migrate, terminal
from migrator.config import Settings
from migrator.files import Problem
from migrator.registry import Registry, Rule
from migrator.result import Diagnostic, FileResult, ProgramResult, Result
from migrator.write import Recovery

BEFORE = b"import horovod.torch as hvd\n"
AFTER = b"import torch.distributed as dist\n"


def changed(path: str) -> FileResult:
    return FileResult(path, "changed", before=BEFORE, after=AFTER)


def finding(path: str, class_: str = "exact") -> Diagnostic:
    return Diagnostic(path, 1, 1, "HVD100", class_, "horovod.torch.init", "message", path)  # type: ignore[arg-type]


def one(status: str, path: str = "train.py", class_: str = "exact") -> Result:
    """A result of one program of one file that the engine would change."""
    program = ProgramResult(path, (path,), status)  # type: ignore[arg-type]
    return Result((finding(path, class_),), (changed(path),), (program,))


def together(*results: Result) -> Result:
    return Result(
        tuple(each for result in results for each in result.findings),
        tuple(each for result in results for each in result.files),
        tuple(each for result in results for each in result.programs),
    )


NOTHING = Result(files=(FileResult("train.py", "unchanged"),))
CLEAN = Result(files=NOTHING.files, programs=(ProgramResult("train.py", ("train.py",), "clean"),))
MIGRATED = one("migrated")
REVIEWED = one("migrated", class_="review")
BLOCKED = one("blocked", class_="blocked")
PARTIAL = one("partial", class_="blocked")
GONE = Result(files=(FileResult("gone.py", "failed", "does not exist"),))


class Engine:
    """Answers with ``result`` and remembers what it was asked."""

    def __init__(self) -> None:
        self.result = NOTHING
        self.error: BaseException | None = None
        self.paths: list[Path] = []
        self.settings = Settings()
        self.text = ("", b"")

    def migrate(self, paths: Sequence[Path], settings: Settings, progress: object = None) -> Result:
        self.paths, self.settings = list(paths), settings
        if self.error:
            raise self.error
        return self.result

    def migrate_text(self, name: str, data: bytes, settings: Settings) -> Result:
        self.text, self.settings = (name, data), settings
        return self.result


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    stand_in = Engine()
    monkeypatch.setattr(migrator.engine, "migrate", stand_in.migrate)
    monkeypatch.setattr(migrator.engine, "migrate_text", stand_in.migrate_text)
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "other.py"):
        (tmp_path / name).write_bytes(BEFORE)
    return stand_in


def run(*arguments: str, stdin: bytes = b"", charset: str = "utf-8") -> Outcome:
    return CliRunner(charset=charset).invoke(cli.main, arguments, input=stdin, prog_name="hvd-migrate")


@pytest.mark.parametrize(
    ("result", "preview", "write", "partial"),
    [
        (NOTHING, 0, 0, 0),
        (CLEAN, 0, 0, 0),
        (MIGRATED, 1, 0, 0),
        (REVIEWED, 1, 0, 0),
        (BLOCKED, 1, 1, 1),
        (PARTIAL, 1, 1, 1),
        (GONE, 2, 2, 2),
        (together(MIGRATED, GONE), 2, 2, 2),
        (together(MIGRATED, one("blocked", "other.py")), 1, 1, 1),
    ],
)
def test_exit_code(engine: Engine, result: Result, preview: int, write: int, partial: int) -> None:
    engine.result = result
    assert run(".").exit_code == preview
    assert run("--check", ".").exit_code == preview
    assert run("--patch", "out.patch", ".").exit_code == preview
    assert run("--write", ".").exit_code == write
    Path("train.py").write_bytes(BEFORE)
    assert run("--write", "--partial", ".").exit_code == partial


@pytest.mark.parametrize("option", [[], ["--check"], ["--patch", "out.patch"], ["--format", "json"]])
def test_only_write_writes(engine: Engine, option: list[str]) -> None:
    engine.result = MIGRATED
    run(*option, ".")
    assert Path("train.py").read_bytes() == BEFORE


@pytest.mark.parametrize(
    ("status", "options", "after"),
    [
        ("migrated", ["-w"], AFTER),
        ("migrated", ["--write", "--partial"], AFTER),
        ("partial", ["--write", "--partial"], AFTER),
        ("partial", ["--write"], BEFORE),
        ("blocked", ["--write"], BEFORE),
        ("blocked", ["--write", "--partial"], BEFORE),
    ],
)
def test_write_goes_by_program(engine: Engine, status: str, options: list[str], after: bytes) -> None:
    engine.result = together(one(status), one("migrated", "other.py"))
    run(*options, ".")
    assert Path("train.py").read_bytes() == after
    assert Path("other.py").read_bytes() == AFTER


def test_a_program_that_cannot_be_written_does_not_stop_the_others(engine: Engine) -> None:
    program = ProgramResult("train.py", ("train.py", "util.py"), "migrated")
    both = Result(files=(changed("train.py"), changed("util.py")), programs=(program,))
    engine.result = together(both, one("migrated", "other.py"))
    Path("util.py").write_bytes(b"edited meanwhile\n")
    outcome = run("--write", "--format", "json", ".")
    assert outcome.exit_code == 2
    assert Path("train.py").read_bytes() == BEFORE
    assert Path("util.py").read_bytes() == b"edited meanwhile\n"
    assert Path("other.py").read_bytes() == AFTER
    report = json.loads(outcome.stdout)
    assert {file["path"]: file["status"] for file in report["files"]} == {
        "train.py": "failed",
        "util.py": "failed",
        "other.py": "changed",
    }
    reasons = {file["path"]: file["reason"] for file in report["files"]}
    assert reasons["util.py"] in reasons["train.py"]
    assert {each["name"]: each["status"] for each in report["programs"]} == {
        "train.py": "blocked",
        "other.py": "migrated",
    }
    assert len(outcome.stderr.splitlines()) == 2


def test_write_finishes_interrupted_runs_first(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def recover(path: Path) -> Recovery:
        asked.append(path)
        return Recovery((Path("half.py"),), (Problem(Path("left.py"), "changed since"),))

    monkeypatch.setattr(migrator.write, "recover", recover)
    assert run(".").stderr == ""
    outcome = run("--write", ".", "train.py")
    assert asked == [Path(), Path("train.py")]
    assert outcome.stderr == (
        "hvd-migrate: finished what an interrupted run began: half.py\nhvd-migrate: left.py: changed since\n"
    )


def test_preview(engine: Engine) -> None:
    engine.result = MIGRATED
    outcome = run(".")
    assert outcome.stdout.startswith("--- a/train.py\n+++ b/train.py\n")
    assert outcome.stdout.endswith("1 file would change; 1 exact, 0 review, 0 blocked, 0 notes\n")
    assert outcome.stderr == ""


@pytest.mark.parametrize(
    ("options", "diff"),
    [
        ([], True),
        (["-v"], True),
        (["-q"], False),
        (["--check"], False),
        (["--check", "-v"], False),
        (["--write"], False),
        (["--write", "-v"], True),
        (["--patch", "p"], False),
    ],
)
def test_where_the_diff_is_shown(engine: Engine, options: list[str], diff: bool) -> None:
    engine.result = MIGRATED
    assert ("+++ b/train.py" in run(*options, ".").stdout) is diff


def test_a_missing_path_is_one_line_on_stderr(engine: Engine) -> None:
    engine.result = together(GONE, MIGRATED)
    outcome = run("--write", "gone.py", "train.py")
    assert outcome.exit_code == 2
    assert outcome.stderr == "hvd-migrate: gone.py: does not exist\n"
    assert "gone.py" not in outcome.stdout
    assert Path("train.py").read_bytes() == AFTER


def test_patch_is_what_git_apply_takes(engine: Engine) -> None:
    engine.result = together(MIGRATED, one("blocked", "other.py"))
    run("--patch", "out.patch", ".")
    subprocess.run(["git", "apply", "out.patch"], check=True)
    assert Path("train.py").read_bytes() == AFTER
    assert Path("other.py").read_bytes() == BEFORE


def test_patch_of_nothing_replaces_an_old_one(engine: Engine) -> None:
    Path("out.patch").write_text("old")
    run("--patch", "out.patch", ".")
    assert Path("out.patch").read_bytes() == b""


@pytest.mark.parametrize("format_", ["text", "json"])
def test_output(engine: Engine, format_: str) -> None:
    engine.result = together(MIGRATED, GONE)
    printed = run("--format", format_, ".").stdout
    outcome = run("--format", format_, "--output", "report", ".")
    assert outcome.stdout == ""
    assert outcome.stderr == "hvd-migrate: gone.py: does not exist\n"
    report = Path("report").read_text()
    assert "gone.py" in report
    assert printed == "".join(line for line in report.splitlines(keepends=True) if not line.startswith("gone.py:"))


@pytest.mark.parametrize("option", ["--output", "--patch"])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_line(engine: Engine, option: str) -> None:
    engine.result = MIGRATED
    outcome = run(option, "/dev/full", ".")
    assert outcome.exit_code == 2
    assert outcome.stderr == "hvd-migrate: error: /dev/full: No space left on device\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_line() -> None:
    imports = "from migrator.cli import main; from migrator.cli.terminal import print_text"
    program = f"{imports}; main.callback = lambda **_: print_text('x'); main(['.'])"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "hvd-migrate: error: stdout: No space left on device\n"


def test_help_needs_ascii_only(engine: Engine) -> None:
    assert run("--help").stdout.isascii()
    assert run("explain", "--help").stdout.isascii()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--write", "--check", "."],
        ["--write", "--patch", "p", "."],
        ["--check", "--patch", "p", "."],
        ["-q", "-v", "."],
        ["--format", "yaml", "."],
        ["--target", "mxnet", "."],
        ["--gradients", "none", "."],
        ["--jobs", "-1", "."],
        ["--jobs", "many", "."],
        ["--no-such-option", "."],
        ["--output", "no/such/folder/report", "."],
        ["--patch", ".", "."],
        ["-", "."],
        ["-", "-"],
        ["-", "--write"],
        ["-", "--patch", "p"],
        ["--stdin-filename", "train.py", "."],
        [""],
        ["--write"],
    ],
)
def test_usage_error(engine: Engine, arguments: list[str]) -> None:
    engine.result = MIGRATED
    outcome = run(*arguments)
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("Usage: hvd-migrate")
    assert "Error: " in outcome.stderr
    assert Path("train.py").read_bytes() == BEFORE
    assert engine.paths == []


def test_no_arguments_is_help_and_bad_usage(engine: Engine) -> None:
    outcome = run()
    assert outcome.exit_code == 2
    assert "PATH..." in outcome.output


def test_help_names_options_and_verbs(engine: Engine) -> None:
    outcome = run("--help")
    assert outcome.exit_code == 0
    for word in ("--write", "--check", "--patch FILE", "--stdin-filename", "explain", "Exit code"):
        assert word in outcome.stdout


def test_version(engine: Engine) -> None:
    assert run("--version").stdout == f"hvd-migrate {__version__}\n"


def test_settings_of_the_project_and_of_the_command_line(engine: Engine) -> None:
    Path("pyproject.toml").write_text(
        '[tool.hvd-migrate]\ngradients = "optimizer"\ntarget = "ddp"\nselect = ["HVD1"]\n'
        'exclude = ["vendor"]\njobs = 3\n'
    )
    run(".")
    assert engine.settings == Settings("ddp", "optimizer", select=("HVD1",), exclude=("vendor",), jobs=3)
    run("--gradients", "ddp", "--select", "HVD2,HVD3", "--select=HVD4", "--ignore", "HVD30, HVD31", "--partial", ".")
    assert engine.settings == Settings(
        "ddp", "ddp", True, ("HVD2", "HVD3", "HVD4"), ("HVD30", "HVD31"), exclude=("vendor",), jobs=3
    )
    run("--exclude", "build/**", "--exclude", "a,b.py", "--target", "auto", "--jobs", "0", ".")
    assert engine.settings == Settings(
        "auto", "optimizer", select=("HVD1",), exclude=("vendor", "build/**", "a,b.py"), jobs=0
    )


def test_bad_settings_are_one_line(engine: Engine) -> None:
    Path("pyproject.toml").write_text("[tool.hvd-migrate]\nno-such-key = 1\n")
    outcome = run(".")
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("hvd-migrate: error: ")
    assert outcome.stderr.count("\n") == 1
    assert "no-such-key" in outcome.stderr


@pytest.mark.parametrize(
    ("result", "stdout", "code"),
    [
        (NOTHING, BEFORE, 0),
        (MIGRATED, AFTER, 0),
        (BLOCKED, BEFORE, 1),
        (PARTIAL, AFTER, 1),
        (Result(files=(FileResult("train.py", "failed", "line 1: invalid syntax"),)), BEFORE, 2),
    ],
)
def test_stdin(engine: Engine, result: Result, stdout: bytes, code: int) -> None:
    engine.result = result
    outcome = run("-", "--stdin-filename", "src/train.py", stdin=BEFORE)
    assert outcome.stdout_bytes == stdout
    assert outcome.exit_code == code
    assert engine.text == ("src/train.py", BEFORE)


def test_stdin_tells_on_stderr(engine: Engine) -> None:
    engine.result = MIGRATED
    assert "train.py:1:1: HVD100 exact  message\n" in run("-", stdin=BEFORE).stderr
    assert run("-", "-q", stdin=BEFORE).stderr == ""


def test_stdin_bytes_go_through_untouched(engine: Engine) -> None:
    data = b"\xef\xbb\xbf# \xe9\r\n\x00\x1b[31m\rx"
    assert run("-", stdin=data).stdout_bytes == data


@pytest.mark.parametrize("options", [["--check"], ["--format", "json"], ["--format", "json", "--check"]])
def test_stdin_with_a_report_on_stdout(engine: Engine, options: list[str]) -> None:
    engine.result = MIGRATED
    outcome = run("-", *options, stdin=BEFORE)
    assert outcome.exit_code == 1
    assert outcome.stderr == ""
    assert "torch.distributed" not in outcome.stdout
    if "json" in options:
        assert json.loads(outcome.stdout)["programs"][0]["status"] == "migrated"
    else:
        assert outcome.stdout.startswith("train.py:1:1: HVD100 exact  message\n")


@pytest.mark.parametrize("charset", ["utf-8", "ascii"])
@pytest.mark.parametrize("format_", ["text", "json"])
def test_hostile_names_and_any_terminal(engine: Engine, charset: str, format_: str) -> None:
    name = "\x1b[2Jé\n\udcff.py"
    source = FileResult(name, "changed", before="é = '☃'\n".encode(), after=b"x\n")
    failed = FileResult(f"b{name}", "failed", "is \x1b bad")
    engine.result = Result((finding(name),), (source, failed), (ProgramResult(name, (name,), "migrated"),))
    outcome = run("--format", format_, ".", charset=charset)
    assert outcome.exit_code == 2
    assert b"\x1b" not in outcome.stdout_bytes + outcome.stderr_bytes
    outcome.stdout_bytes.decode(charset)
    assert outcome.stderr.count("\n") == 1
    if format_ == "json":
        assert json.loads(outcome.stdout_bytes)["programs"][0]["name"] == "\\x1b[2Jé\\n\\xff.py"


def test_internal_error(engine: Engine) -> None:
    engine.error = RuntimeError("two\nlines")
    outcome = run(".")
    assert outcome.exit_code == 2
    assert outcome.output == "internal error: RuntimeError: two\\nlines (please report)\n"
    assert "Traceback" in run("-v", ".").stderr


def test_interrupt_is_quiet(engine: Engine) -> None:
    engine.error = KeyboardInterrupt()
    outcome = run(".")
    assert outcome.exit_code == 130
    assert outcome.output == ""


@pytest.mark.parametrize("arguments", [["./explain"], ["-q", "explain"], ["train.py", "explain"]])
def test_a_folder_called_like_a_verb(engine: Engine, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 0
    assert engine.paths[-1] == Path("explain")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(migrate.time, "monotonic", lambda: now[0])
    return now


def test_progress_on_a_terminal_once_it_takes_long(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with migrate._progress(quiet=False) as progress:
        assert progress
        for clock[0], done in ((0.9, 1), (1.1, 2), (1.15, 3), (1.3, 4)):
            progress(done, 9)
    assert terminal.getvalue() == "\r\x1b[K2/9 files\r\x1b[K4/9 files\r\x1b[K"


def test_no_progress_in_a_short_run(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with migrate._progress(quiet=False) as progress:
        assert progress
        progress(1, 1)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_no_progress_elsewhere(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, quiet: bool) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with migrate._progress(quiet) as progress:
        assert progress is None


@pytest.mark.parametrize(
    ("stream", "no_color", "expected"),
    [(Terminal(), "", True), (Terminal(), "1", False), (io.StringIO(), "", False)],
)
def test_color(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, no_color: str, expected: bool) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    assert terminal.wants_color(stream) is expected


def test_import_is_light() -> None:
    heavy = ("libcst", "pathspec", "migrator.engine", "migrator.registry", "migrator.rules", "difflib", "json")
    program = f"import sys, migrator.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def answer(*_: object) -> tuple[()]:
    return ()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    filled = Registry(aliases={"horovod.torch.mpi_ops": "horovod.torch"})
    for rule_id, name, symbol in (
        ("HVD300", "allreduce", "horovod.torch.allreduce"),
        ("HVD700", "keras-allreduce", "horovod.keras.allreduce"),
        ("HVD701", "callbacks", "horovod.keras.callbacks.MetricAverageCallback"),
        ("HVD400", "runner", "sparkdl.HorovodRunner"),
    ):
        filled.add(Rule(rule_id, name, (symbol,), answer, f"{rule_id} {name}: what becomes of it.\n\nMore."))
    monkeypatch.setattr("migrator.registry.load_rules", lambda: filled)
    return filled


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("what", "rule_id"),
    [
        ("HVD300", "HVD300"),
        ("hvd300", "HVD300"),
        ("keras-allreduce", "HVD700"),
        ("hvd.allreduce", "HVD300"),
        ("allreduce", "HVD300"),
        ("horovod.torch.allreduce", "HVD300"),
        ("horovod.torch.mpi_ops.allreduce", "HVD300"),
        ("horovod.keras.allreduce", "HVD700"),
        ("hvd.callbacks.MetricAverageCallback", "HVD701"),
        ("MetricAverageCallback", "HVD701"),
        ("HorovodRunner", "HVD400"),
    ],
)
def test_explain(what: str, rule_id: str) -> None:
    outcome = run("explain", what)
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith(f"# {rule_id} ")
    assert outcome.stdout.endswith("More.\n")


@pytest.mark.usefixtures("registry")
def test_explain_several_once_each() -> None:
    outcome = run("explain", "hvd.allreduce", "HVD300", "HVD400")
    assert [line for line in outcome.stdout.splitlines() if line.startswith("#")] == [
        "# HVD300 allreduce",
        "# HVD400 runner",
    ]


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("what", "near"),
    [("hvd.allreduec", "horovod.torch.allreduce"), ("HVD30", "HVD300"), ("HorovodRuner", "sparkdl.HorovodRunner")],
)
def test_explain_unknown_names_the_nearest(what: str, near: str) -> None:
    outcome = run("explain", what)
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert outcome.stderr.startswith(f"hvd-migrate: no rule is called '{what}' or answers for it; did you mean ")
    assert near in outcome.stderr


@pytest.mark.usefixtures("registry")
def test_explain_unknown_beside_known() -> None:
    outcome = run("explain", "HVD300", "?")
    assert outcome.exit_code == 2
    assert outcome.stdout.startswith("# HVD300")
    assert outcome.stderr == "hvd-migrate: no rule is called '?' or answers for it\n"


@pytest.mark.usefixtures("registry")
def test_explain_lists_all() -> None:
    outcome = run("explain")
    assert outcome.exit_code == 0
    assert [line.split()[0] for line in outcome.stdout.splitlines()] == ["HVD300", "HVD400", "HVD700", "HVD701"]
    assert "HVD300  allreduce: what becomes of it.\n" in outcome.stdout
