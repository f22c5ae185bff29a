"""Which Keras a program is for: by its text, its project's requirements, or as asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.config import Settings
from migrator.keras import with_keras
from migrator.reading import Input

PROGRAM = b"import tensorflow as tf\nimport horovod.tensorflow as hvd\n"


def found(folder: Path, text: bytes = PROGRAM, keras: str = "auto") -> tuple[str, str]:
    """The Keras and the line for the report of a program in ``folder / "src"``."""
    program = Input(folder / "src" / "train.py", "src/train.py", text)
    settings, line = with_keras(Settings(keras=keras), [program])  # type: ignore[arg-type]
    return settings.keras, line


@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        ("tensorflow==2.15.1", "2"),
        ("tensorflow-gpu>=2.4,<2.10  # old", "2"),
        ("TensorFlow_CPU~=2.12.0 --hash=sha256:0", "2"),
        ("tensorflow>=2.16", "3"),
        ('tensorflow==2.17.* ; python_version > "3"', "3"),
        ("tensorflow[and-cuda]>2.15.1", "auto"),
        ("keras<3", "2"),
        ("keras>=3.1", "3"),
        ("tensorflow", "auto"),
        ("tensorflow>=2.4", "auto"),
        ("tensorflow==99", "auto"),
        ("torch==2.2", "auto"),
        ("-r other.txt", "auto"),
        ("", "auto"),
    ],
)
def test_requirements(tmp_path: Path, requirement: str, version: str) -> None:
    (tmp_path / "requirements-train.txt").write_text(f"numpy\n{requirement}\n")
    keras, line = found(tmp_path)
    assert keras == version
    assert ("requirements-train.txt asks for " in line) == (version != "auto")


def test_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "a"\ndependencies = ["click", "tensorflow"]\n'
        '[project.optional-dependencies]\ntrain = ["tensorflow<2.16"]\n'
    )
    assert found(tmp_path) == ("2", "written for Keras 2: pyproject.toml asks for tensorflow<2.16")


@pytest.mark.parametrize(
    "text", ["project = 1\n", "project = {", "[project]\ndependencies = 'tensorflow<2'\n", "[tool]\n", "\xff"]
)
def test_a_pyproject_that_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1"))
    assert found(tmp_path)[0] == "auto"


def test_the_nearest_requirements_count(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "requirements.txt").write_text("tensorflow<2.16\n")
    (tmp_path / "src" / "requirements.txt").write_text("tensorflow>=2.16\n")
    assert found(tmp_path)[0] == "3"


def test_the_text_counts_more(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow>=2.16\n")
    text = b'import os\nos.environ["TF_USE_LEGACY_KERAS"] = "1"\n' + PROGRAM
    assert found(tmp_path, text) == ("2", "written for Keras 2: src/train.py says TF_USE_LEGACY_KERAS")
    assert found(tmp_path, b"import  tf_keras\n" + PROGRAM)[1].endswith("says import tf_keras")


def test_as_asked_and_without_tensorflow(tmp_path: Path) -> None:
    assert found(tmp_path, keras="3") == ("3", "written for Keras 3, as asked")
    assert found(tmp_path, b"import horovod.torch as hvd\n") == ("auto", "")
    assert "--keras 2 or 3" in found(tmp_path)[1]


def test_requirements_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").mkdir()
    assert found(tmp_path)[0] == "auto"
