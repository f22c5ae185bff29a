from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from migrator import files
from migrator.config import Settings, SettingsError
from migrator.files import JOURNAL, MENTIONS, Found, Problem, display, find, mentions_horovod, scan

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a file below the working directory."""
    root = tmp_path / "work"
    root.mkdir()
    monkeypatch.chdir(root)

    def create(name: str, text: str = "import horovod\n") -> Path:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return create


def names(found: Found) -> list[str]:
    return [display(path) for path in found.files]


def walk(*paths: str, **settings: tuple[str, ...]) -> list[str]:
    return names(find([Path(path) for path in paths or (".",)], Settings(exclude=settings.get("exclude", ()))))


def test_modules_and_others_apart(make: Make) -> None:
    others = ["Dockerfile", "Dockerfile.gpu", "Makefile", "Pipfile", "b.yml", "c.yaml", "d.toml", "e.sh"]
    for name in ["z.py", "a/b.py", "a-b.py", "w.pyw", "x.pyc", "y.pyx", "py", "Dockerfile.py", *others]:
        make(name)
    found = find([Path()], Settings())
    assert names(found) == ["Dockerfile.py", "a/b.py", "a-b.py", "w.pyw", "z.py"]
    assert [path.name for path in found.others] == others
    assert not found.problems
    assert list(found.files) == sorted(found.files)


def test_each_file_once(make: Make) -> None:
    make("a/b.py")
    assert walk(".", "a", "a/b.py", "a/../a/b.py") == ["a/b.py"]


def test_explicit_file_of_any_suffix(make: Make) -> None:
    for name in ["train", "x.pyx", "n.yml"]:
        make(name)
    found = find([Path("train"), Path("x.pyx"), Path("n.yml")], Settings())
    assert names(found) == ["train", "x.pyx"]
    assert [path.name for path in found.others] == ["n.yml"]


@pytest.mark.parametrize("folder", [".git", ".hg", ".venv", "node_modules", "__pycache__", ".tox", ".eggs"])
def test_skip_folder(make: Make, folder: str) -> None:
    make(f"{folder}/x.py")
    make(f"a/{folder}/x.py")
    assert walk() == []
    assert walk(f"{folder}/x.py") == [f"{folder}/x.py"]


def test_venv_only_if_it_is_one(make: Make) -> None:
    make("venv/x.py")
    make("a/venv/x.py")
    make("a/venv/pyvenv.cfg", "")
    make("build/x.py")
    make("dist/x.py")
    assert walk() == ["build/x.py", "dist/x.py", "venv/x.py"]


def test_ignore_link_out_of_tree(make: Make, tmp_path: Path) -> None:
    make("x.py")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.py").write_text("import horovod")
    Path("link.py").symlink_to(tmp_path / "out" / "secret.py")
    Path("folder").symlink_to(tmp_path / "out")
    Path("broken.py").symlink_to("nothing")
    found = find([Path()], Settings())
    assert names(found) == ["x.py"]
    assert not found.problems


def test_explicit_link_is_resolved(make: Make, tmp_path: Path) -> None:
    make("x.py")
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "y.py"
    out.write_text("")
    Path("one.py").symlink_to("x.py")
    Path("two").symlink_to(out.parent)
    found = find([Path("one.py"), Path("two")], Settings())
    assert found.files == (out.resolve(), Path("x.py").resolve())


def test_directory_loop_by_links_ends(make: Make) -> None:
    make("a/x.py")
    Path("a/loop").symlink_to("..")
    Path("self").symlink_to("self")
    assert walk() == ["a/x.py"]
    assert find([Path("self")], Settings()).problems[0].path == Path("self")


def test_problem_missing_path(make: Make) -> None:
    assert find([Path("nothing")], Settings()).problems == (Problem(Path("nothing"), "does not exist"),)


def test_problem_neither_file_nor_folder(make: Make) -> None:
    make("x.py")
    os.mkfifo("pipe.py")
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        found = find([Path(), Path("socket")], Settings())
    assert names(found) == ["x.py"]
    assert {(problem.path.name, problem.reason) for problem in found.problems} == {
        ("pipe.py", "neither a file nor a folder"),
        ("socket", "neither a file nor a folder"),
    }


def test_problem_folder_not_permitted(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make("a/x.py")
    make("b/x.py")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("/a"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(files.os, "scandir", refuse)
    found = find([Path()], Settings())
    assert names(found) == ["b/x.py"]
    assert [(problem.path.name, problem.reason) for problem in found.problems] == [("a", "permission denied")]


def test_gitignore_nested_above_and_info(make: Make) -> None:
    make(".git/info/exclude", "info.py\n")
    make(".gitignore", "\ufeff# c\n*_gen.py\nbuild/\n!\n/top.py\r\n")
    make("sub/.gitignore", "!keep_gen.py\nlocal.py\n")
    for name in ["top.py", "a_gen.py", "build/x.py", "ok.py", "info.py", "sub/top.py", "sub/keep_gen.py"]:
        make(name)
    for name in ["sub/local.py", "sub/x_gen.py", "sub/deep/local.py", "sub/deep/ok.py", "sub/info.py"]:
        make(name)
    in_sub = ["sub/deep/ok.py", "sub/keep_gen.py", "sub/top.py"]
    assert walk() == ["ok.py", *in_sub]
    assert walk("sub") == in_sub
    assert walk("sub/deep") == ["sub/deep/ok.py"]
    assert walk("a_gen.py", "build") == ["a_gen.py", "build/x.py"]


def test_gitignore_stops_at_the_repository(make: Make) -> None:
    make(".gitignore", "*.py\n")
    make("repo/.git/HEAD", "")
    make("repo/a/x.py")
    assert walk() == ["repo/a/x.py"]
    assert walk("repo/a") == ["repo/a/x.py"]


def test_gitignore_is_read_only_if_a_plain_file(make: Make) -> None:
    make("x.py")
    os.mkfifo(".gitignore")
    make("a/all", "*\n")
    make("a/y.py")
    Path("a/.gitignore").symlink_to("all")
    assert walk() == ["a/y.py", "x.py"]


def test_gitignore_as_git_does(make: Make) -> None:
    rng = random.Random(7)
    subprocess.run(["git", "init", "-q"], check=True)
    parts = ["a", "b", "c", "a.py", "b.py", "ab.py"]
    for _ in range(150):
        make("/".join([*(rng.choice(["a", "b", "c"]) for _ in range(rng.randint(0, 3))), rng.choice(parts[3:])]))
    shapes = ["{}", "/{}", "{}/", "!{}", "!{}/", "*/{}", "**/{}", "{}/**", "/{}/*", "!/{}/a.py", "?.py", "[ab]*", "!*/"]
    for turn in range(60):
        for folder in ["", "a/", "a/b/"]:
            make(f"{folder}x.py")
            lines = [rng.choice(shapes).format(rng.choice(parts)) for _ in range(rng.randint(0, 4))]
            lines = [line for line in lines if turn % 2 or "!" not in line]
            make(f"{folder}.gitignore", "\n".join(lines))
        command = ["git", "ls-files", "-oc", "--exclude-standard", "*.py"]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rules = [path.read_text() for path in Path().rglob(".gitignore")]
        assert set(walk()) >= set(output.split()), rules
        if not any("!" in rule for rule in rules):
            assert sorted(walk()) == sorted(output.split()), rules


def test_gitignore_takes_back(make: Make) -> None:
    make(".gitignore", "data/**\n!data/loader.py\nlogs/*\n!logs/keep/\n")
    for name in ["data/loader.py", "data/x.py", "data/a/x.py", "logs/x.py", "logs/keep/y.py", "logs/a/y.py"]:
        make(name)
    assert walk() == ["data/loader.py", "logs/keep/y.py"]


def test_exclude(make: Make, tmp_path: Path) -> None:
    for name in ["a/x.py", "a/y.py", "b/a/z.py", "c.py", "../other/b/x.py"]:
        make(name)
    assert walk(exclude=("/a",)) == ["b/a/z.py", "c.py"]
    assert walk(exclude=("a/", "!a/x.py")) == ["c.py"]
    assert walk(exclude=("*.py", "!c.py")) == ["c.py"]
    assert walk("a/x.py", "a/y.py", "a", "c.py", exclude=("x.py", "a/y.py")) == ["c.py"]
    assert walk("../other", exclude=("b",)) == []
    assert walk("../other", exclude=("c",)) == [str(tmp_path.resolve() / "other/b/x.py")]


def test_exclude_that_is_no_pattern(make: Make) -> None:
    with pytest.raises(SettingsError, match="exclude"):
        walk(exclude=("!",))


def test_no_pathspec_without_patterns(make: Make) -> None:
    make("x.py")
    code = (
        "import sys; from pathlib import Path; from migrator.config import Settings; from migrator.files import find;"
        "assert find([Path()], Settings()).files; print('pathspec' in sys.modules, 'libcst' in sys.modules)"
    )
    root = str(Path(files.__file__).parents[1])
    run = ["python", "-c", code]
    output = subprocess.run(run, executable=os.sys.executable, env={"PYTHONPATH": root}, capture_output=True, text=True)
    assert output.stdout == "False False\n", output.stderr


def test_journal_of_a_killed_run_is_seen(make: Make) -> None:
    make("x.py")
    make(f"a/b/{JOURNAL}", "{}")
    assert find([Path()], Settings()).journals == (Path("a/b").resolve(),)


def test_name_that_is_not_utf8(make: Make) -> None:
    make(os.fsdecode(b"\xff.py"))
    make(".gitignore", "x.py\n")
    make("x.py")
    assert walk() == [os.fsdecode(b"\xff.py")]


@pytest.mark.parametrize(
    ("data", "mentions"),
    [
        (b"import horovod.torch", True),
        (b"HOROVOD_TIMELINE=x", True),
        (b"strategy='HoroVod'", True),
        (b"hvd.init()", True),
        (b"from utils import hvd_size", True),
        (b"from sparkdl import HorovodRunner", True),
        (b"os.environ['OMPI_COMM_WORLD_RANK']", True),
        (b"PMI_RANK", True),
        (b"pmi_rank = SPARKDL + Hvd", False),
        (b"", False),
    ],
)
def test_mentions(data: bytes, mentions: bool) -> None:
    assert mentions_horovod(data) is mentions
    assert bool(MENTIONS.search(data)) is mentions


def test_scan_yields_mentions_and_errors(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    good, plain, bad = make("a.py"), make("b.py", "x = 1\n"), make("c.py")
    plain_open = open

    def refuse(path: Path, *rest: object, **named: object) -> object:
        if path == bad:
            raise PermissionError(13, "Permission denied")
        return plain_open(path, *rest, **named)  # type: ignore[call-overload]

    monkeypatch.setattr("builtins.open", refuse)
    (first, data), (second, error) = scan([good, plain, bad])
    assert (first, data) == (good, b"import horovod\n")
    assert second == bad
    assert isinstance(error, PermissionError)


def test_display(make: Make, tmp_path: Path) -> None:
    path = make("a/x.py").resolve()
    assert display(path) == "a/x.py"
    assert display(Path("a/../a/x.py")) == "a/x.py"
    assert display(tmp_path / "y.py") == (tmp_path / "y.py").as_posix()
