"""Copies of a working tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from migrator.parity import mirror as mirrors
from migrator.parity.launch import CHILD
from migrator.parity.mirror import mirror


def tree(folder: Path) -> Path:
    for name, text in {
        "train.py": "x",
        "data/a.txt": "1",
        "lib/b.py": "y",
        ".git/HEAD": "z",
        "lib/__pycache__/c": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_what_a_run_writes_stays_in_its_copy(tmp_path: Path) -> None:
    source = tree(tmp_path / "tree")
    mirror(source, tmp_path / "copy")
    (tmp_path / "copy/data/a.txt").write_text("2")
    (tmp_path / "copy/data/new.txt").write_text("3")
    assert (source / "data/a.txt").read_text() == "1"
    assert sorted(path.name for path in (source / "data").iterdir()) == ["a.txt"]
    assert (tmp_path / "copy/lib/b.py").read_text() == "y"


def test_version_control_and_caches_stay_out(tmp_path: Path) -> None:
    mirror(tree(tmp_path / "tree"), tmp_path / "copy")
    assert not (tmp_path / "copy/.git").exists()
    assert not (tmp_path / "copy/lib/__pycache__").exists()


def test_large_data_is_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tree(tmp_path / "tree")
    monkeypatch.setattr(mirrors, "MOST_BYTES_OF_A_FILE", 4)
    monkeypatch.setattr(mirrors, "MOST_FILES_OF_DATA", 2)
    (source / "model.bin").write_text("12345")
    for number in range(3):
        (source / f"data/{number}").touch()
        (source / f"lib/{number}").touch()
    mirror(source, tmp_path / "copy")
    assert (tmp_path / "copy/model.bin").is_symlink()
    assert (tmp_path / "copy/model.bin").read_text() == "12345"
    assert (tmp_path / "copy/data").is_symlink()
    assert not (tmp_path / "copy/lib").is_symlink()


def test_links_lead_to_where_they_led(tmp_path: Path) -> None:
    source = tree(tmp_path / "tree")
    (source / "here").symlink_to("data/a.txt")
    (source / "nowhere").symlink_to("missing")
    (source / "out").symlink_to(tmp_path)
    mirror(source, tmp_path / "copy")
    assert (tmp_path / "copy/here").read_text() == "1"
    assert (tmp_path / "copy/nowhere").is_symlink()
    assert (tmp_path / "copy/out").resolve() == tmp_path


@pytest.mark.parametrize("target", ["lib", "{tree}/lib"])
def test_links_within_the_tree_lead_to_the_copy(tmp_path: Path, target: str) -> None:
    source = tree(tmp_path / "tree")
    (source / "linked").symlink_to(target.format(tree=source))
    mirror(source, tmp_path / "copy")
    assert (tmp_path / "copy/linked/b.py").resolve() == tmp_path / "copy/lib/b.py"


EDITABLE = """
import importlib.util, sys, types
finder = types.ModuleType("__editable___app_finder")
finder.MAPPING = {{"app": {place!r}}}
def find_spec(name, path=None, target=None):
    if name in finder.MAPPING:
        return importlib.util.spec_from_file_location(name, finder.MAPPING[name] + ".py")
finder.find_spec = find_spec
sys.modules[finder.__name__] = finder
sys.meta_path.append(finder)
"""


def test_editable_installations_are_those_of_the_copy(tmp_path: Path) -> None:
    for place in ("tree/src", "tree/lib", "site"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "tree/src/app.py").touch()
    (tmp_path / "tree/lib/other.py").touch()
    (tmp_path / "site/sitecustomize.py").write_text(EDITABLE.format(place=str(tmp_path / "tree/src/app")))
    mirror(tmp_path / "tree", tmp_path / "copy")
    paths = {"HVD_MIGRATE_TREE": str(tmp_path / "tree"), "HVD_MIGRATE_COPY": str(tmp_path / "copy")}
    python_path = os.pathsep.join(map(str, (CHILD, tmp_path / "site", tmp_path / "tree/lib")))
    done = subprocess.run(
        [sys.executable, "-c", "import app, other; print(app.__file__, other.__file__)"],
        env={**os.environ, **paths, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(tmp_path / "copy/src/app.py"), str(tmp_path / "copy/lib/other.py")]
