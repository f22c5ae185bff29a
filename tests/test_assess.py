"""Taking stock of a code base: what is counted, and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from migrator.cli import main

FILES = {
    "pyproject.toml": "",
    "train.py": "import horovod.torch as hvd\n\nhvd.init()\nprint(hvd.rank(), hvd.rank())\n",
    "keras.py": "import horovod.tensorflow.keras as hvd\n\nhvd.init()\nx = hvd.Adasum\n",
    "a|b.py": "import horovod.mxnet as hvd\n\nhvd.init()\nhvd.init()\n",
    "plain.py": "print(1)\n",
    "run.sh": "horovodrun -np 2 python train.py\n",
    "other.sh": "horovodrun -np 2 -H $HOSTS python train.py\n",
    "broken.py": "import horovod.torch as hvd\nhvd.init(\n",
    "README.md": "Trains with Horovod.\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["assess", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_what_is_counted(folder: Path) -> None:
    assessment = json.loads(run(".", "--format", "json"))
    assert (assessment["schema"], assessment["files_read"]) == (1, 7)
    programs = {program["name"]: program for program in assessment["programs"]}
    train = programs["train.py"]
    assert (train["libraries"], train["files"], train["lines"], train["by_hand"]) == (["PyTorch"], 2, 5, 0)
    assert programs["keras.py"]["by_hand"] == 1
    assert programs["a|b.py"]["libraries"] == ["MXNet"]
    assert programs["other.sh"]["libraries"] == []
    symbols = dict(assessment["symbols"])
    assert (symbols["horovod.torch.rank"], symbols["horovod.mxnet.init"]) == (2, 2)
    assert assessment["launchers"] == [["horovodrun", 2]]
    assert dict(assessment["beside"]) == {"markdown": 1, "shell": 2}
    assert assessment["blocked"][0]["rule"] == "HVD900"
    assert assessment["unread"] == ["broken.py: line 2: broken syntax: '(' was never closed"]
    assert assessment["advice"]


def test_the_text(folder: Path) -> None:
    text = run(".")
    assert "7 files read. Horovod is used by 3 programs of 4 files and 13 lines: MXNet, PyTorch, TensorFlow." in text
    assert "1 of 3 move without work by hand; a reviewer reads " in text
    assert "2 programs and 2 files beside the code cannot move yet: 5 places need a person, for 4 reasons." in text


def test_markdown_escapes_what_it_shows(folder: Path) -> None:
    text = run(".", "--format", "markdown", "--output", "report.md")
    assert text == ""
    report = (folder / "report.md").read_text()
    assert "| `a\\|b.py` | MXNet | 1 | 4 | blocked: 2 places by hand |" in report
    assert report.startswith("# Horovod in .\n\n")


def test_without_horovod(folder: Path) -> None:
    assert "No Horovod found in 1 file." in run("plain.py")


def test_without_code(folder: Path) -> None:
    assert "1 file read. No code uses Horovod; 1 file beside the code name it." in run("README.md")


def test_long_lists_are_cut_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(102):
        (tmp_path / f"m{number}.py").write_text(FILES["train.py"])
    for form in ("text", "markdown"):
        assert "and 2 more" in run(".", "--format", form)
