from __future__ import annotations

from pathlib import Path

import pytest

from migrator.config import Settings, SettingsError, is_selected, load_settings, make_settings


def test_defaults_without_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert load_settings(tmp_path / "a" / "b.py") == Settings()


def test_every_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.hvd-migrate]\ntarget = 'ddp'\ngradients = 'optimizer'\npartial = true\nselect = ['HVD1']\n"
        "ignore = ['HVD104']\nexclude = ['fixtures/']\njobs = 3\nkeras = '2'\n"
    )
    wanted = Settings("ddp", "optimizer", True, ("HVD1",), ("HVD104",), ("fixtures/",), 3, "2")
    assert load_settings(tmp_path) == wanted


def test_nearest_file_wins(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.hvd-migrate]\njobs = 1\n")
    (inner / "pyproject.toml").write_text("[tool.hvd-migrate]\njobs = 2\n")
    assert load_settings(inner / "train.py").jobs == 2
    assert load_settings(tmp_path).jobs == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("colour = 1", "'colour': unknown key"),
        ("target = 'tpu'", "target: must be one of auto, ddp, deepspeed, ray, not 'tpu'"),
        ("target = 1", "target: must be one of"),
        ("gradients = []", "gradients: must be one of"),
        ("partial = 1", "partial: must be true or false"),
        ("partial = 'yes'", "partial: must be true or false"),
        ("jobs = true", "jobs: must be a whole number"),
        ("jobs = -1", "jobs: must be a whole number"),
        ("jobs = 1.5", "jobs: must be a whole number"),
        ("select = 'HVD1'", "select: must be a list of strings"),
        ("ignore = ['']", "ignore: must be a list of strings"),
        ("exclude = [1]", "exclude: must be a list of strings"),
    ],
)
def test_wrong_setting_names_file_key_and_reason(tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(f"[tool.hvd-migrate]\n{line}\n")
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{file}: [tool.hvd-migrate]")
    assert reason in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "content",
    [b"[tool", b"x = '\xe9'", b"x = " + b"[" * 100_000, b"tool = 1", b"[tool]\nhvd-migrate = []"],
    ids=["broken", "latin-1", "deep", "tool", "table"],
)
def test_file_that_holds_no_table_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pyproject.toml").write_bytes(content)
    with pytest.raises(SettingsError, match=r"pyproject\.toml: "):
        load_settings(tmp_path)


def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path)


def test_make_settings_takes_tuples() -> None:
    assert make_settings({"select": ("HVD1",)}, "command line").select == ("HVD1",)


@pytest.mark.parametrize(
    ("select", "ignore", "selected"),
    [
        ((), (), True),
        ((), ("HVD1",), False),
        ((), ("HVD2",), True),
        (("HVD1",), (), True),
        (("HVD2",), (), False),
        (("HVD",), ("HVD1",), False),
        (("HVD104",), ("HVD1",), True),
        (("HVD1",), ("HVD104",), False),
        (("HVD104",), ("HVD104",), False),
        (("HVD1", "HVD104"), ("HVD10",), True),
    ],
)
def test_longest_prefix_decides(select: tuple[str, ...], ignore: tuple[str, ...], selected: bool) -> None:
    assert is_selected(Settings(select=select, ignore=ignore), "HVD104") is selected
