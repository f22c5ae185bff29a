"""Lightning's spelling of DDP follows the version that the project requires."""

from __future__ import annotations

from pathlib import Path

import pytest
from update_fixtures import run

from migrator.config import Settings
from migrator.lightning import has_strategy
from migrator.reading import Input

PROGRAM = b"""\
import pytorch_lightning as pl
from pytorch_lightning.plugins import HorovodPlugin

trainer = pl.Trainer(accelerator="horovod", gpus=1)
older = pl.Trainer(distributed_backend="horovod", gpus=1)
plugins = pl.Trainer(plugins=[HorovodPlugin()])
"""


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("pytorch-lightning==1.4.9", False),
        ("pytorch_lightning<1.5", False),
        ("pytorch-lightning~=0.9.0", False),
        ("pytorch-lightning>=1.3,<1.5  # old", False),
        ("pytorch-lightning==1.5.0", True),
        ("pytorch-lightning>=1.4", True),
        ("lightning>=2", True),
        ("lightning==2.5.1", True),
        ("pytorch-lightning", True),
        ("pytorch-lightning==99", True),
        ("torch==1.9", True),
        ("", True),
    ],
)
def test_requirement(requirement: str, expected: bool, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"numpy\n{requirement}\n", "utf-8")
    assert has_strategy([Input(tmp_path / "src" / "train.py", "src/train.py", PROGRAM)]) is expected


def test_no_lightning_in_the_program(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("pytorch-lightning==1.4\n", "utf-8")
    assert has_strategy([Input(tmp_path / "train.py", "train.py", b"import torch\n")])


def test_old_lightning_keeps_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("pytorch-lightning==1.4.9\n", "utf-8")
    written = run({"program.py": PROGRAM}, Settings(jobs=1), tmp_path).written["program.py"]
    assert written == (PROGRAM.replace(b'"horovod"', b'"ddp"').replace(b"HorovodPlugin", b"DDPPlugin"))


def test_new_lightning_has_a_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = run({"program.py": PROGRAM}, Settings(jobs=1), tmp_path).written["program.py"].decode()
    assert written.splitlines()[1:] == [
        "from pytorch_lightning.strategies import DDPStrategy",
        "",
        'trainer = pl.Trainer(strategy="ddp", gpus=1)',
        'older = pl.Trainer(strategy="ddp", gpus=1)',
        "plugins = pl.Trainer(strategy=DDPStrategy())",
    ]
