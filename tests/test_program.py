from __future__ import annotations

from pathlib import Path

import pytest

from migrator.files import mentions_horovod
from migrator.program import Program, group, imported_modules, locate, root_of

USES = b"import horovod.torch as hvd\n"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (b"import a", ["a"]),
        (b"import a.b, c as d", ["a.b", "c"]),
        (b"from a import b", ["a", "a.b"]),
        (b"from a import b as c, d", ["a", "a.b", "a.d"]),
        (b"from a import (\n    b,\n    c,\n)", ["a", "a.b", "a.c"]),
        (b"from . import b", [".", ".b"]),
        (b"from ..a import b", ["..a", "..a.b"]),
        (b"  from a import b  # c", ["a", "a.b"]),
        (b"from a import *", ["a"]),
        (b"x = 1; y = 2\nimported = 1\n", []),
        (b"import a\r\nimport b", ["a", "b"]),
    ],
)
def test_imported_modules(source: bytes, names: list[str]) -> None:
    assert list(imported_modules(source)) == names


def write(root: Path, files: dict[str, bytes]) -> dict[Path, bytes]:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return {root / name: data for name, data in files.items()}


@pytest.mark.parametrize(
    ("importer", "name", "found"),
    [
        ("a.py", "b", "b.py"),
        ("a.py", "p", "p/__init__.py"),
        ("a.py", "p.c", "p/c.py"),
        ("p/c.py", ".d", "p/d.py"),
        ("p/c.py", "..b", "b.py"),
        ("p/c.py", "b", "b.py"),
        ("p/c.py", "d", "p/d.py"),
        ("p/c.py", "p.d", "p/d.py"),
        ("a.py", "os", None),
        ("a.py", "p.nothing", None),
        ("a.py", ".....x", None),
    ],
)
def test_locate(importer: str, name: str, found: str | None, tmp_path: Path) -> None:
    write(
        tmp_path, {"a.py": b"", "b.py": b"", "p/__init__.py": b"", "p/c.py": b"", "p/d.py": b"", "pyproject.toml": b""}
    )
    path = locate(tmp_path / importer, name, tmp_path)
    assert path == (tmp_path / found if found else None)


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", "setup.py", "setup.cfg", ""])
def test_root_of(mark: str, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    if mark:
        (tmp_path / mark).touch()
    root = root_of(tmp_path / "a" / "b" / "c.py")
    assert root == (tmp_path if mark else tmp_path / "a" / "b")


def programs(root: Path, files: dict[str, bytes], *given: str) -> list[tuple[list[str], list[str]]]:
    (root / "pyproject.toml").touch()
    every = write(root, files)
    using = {
        p: d for p, d in every.items() if mentions_horovod(d) and (not given or p.relative_to(root).as_posix() in given)
    }
    made = group(using, lambda path: path.read_bytes() if path.exists() else None, mentions_horovod)

    def names(program: Program, which: str) -> list[str]:
        return [path.relative_to(root).as_posix() for path in getattr(program, which)]

    return sorted((names(p, "files"), names(p, "context")) for p in made)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a.py": USES, "b.py": USES}, [["a.py"], ["b.py"]]),
        ({"a.py": USES + b"import b\n", "b.py": USES}, [["a.py", "b.py"]]),
        ({"a.py": USES + b"import b\n", "b.py": b"import c\n", "c.py": USES}, [["a.py", "c.py"]]),
        ({"a.py": USES + b"import b\n", "b.py": USES + b"import a\n"}, [["a.py", "b.py"]]),
        ({"a.py": USES + b"import a\n"}, [["a.py"]]),
        ({"p/__init__.py": b"", "p/a.py": USES, "m.py": USES + b"from p import a\n"}, [["m.py", "p/a.py"]]),
        ({"p/a.py": USES + b"from .b import c\n", "p/b.py": USES}, [["p/a.py", "p/b.py"]]),
        (
            {"p/__init__.py": b"", "p/a.py": USES + b"from p.b import c\n", "p/b.py": USES, "m.py": b"import p.a\n"},
            [["p/a.py", "p/b.py"]],
        ),
        (
            {"p/q/a.py": USES + b"from p.q.b import c\n", "p/q/b.py": USES, "p/d.py": b"", "m.py": b"import p.q.a\n"},
            [["p/q/a.py", "p/q/b.py"]],
        ),
        ({"a.py": USES, "horovod/__init__.py": USES}, [["a.py"], ["horovod/__init__.py"]]),
    ],
)
def test_group(files: dict[str, bytes], expected: list[list[str]], tmp_path: Path) -> None:
    found = [[name for name in names if mentions_horovod(files[name])] for names, _ in programs(tmp_path, files)]
    assert found == expected


def test_a_file_that_is_not_given_is_context(tmp_path: Path) -> None:
    files = {"a.py": USES + b"import b\n", "b.py": USES}
    assert programs(tmp_path, files, "a.py") == [(["a.py"], ["b.py"])]


def test_links_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": USES + b"import b\n", "c.txt": USES})
    (tmp_path / "b.py").symlink_to(tmp_path / "c.txt")
    assert locate(tmp_path / "a.py", "b", tmp_path) is None
