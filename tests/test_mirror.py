"""Copies of a working tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.parity import mirror as mirrors
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
    mirror(source, tmp_path / "copy")
    assert (tmp_path / "copy/here").read_text() == "1"
    assert (tmp_path / "copy/nowhere").is_symlink()
