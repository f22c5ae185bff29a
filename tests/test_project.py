"""A project moved in one run: code, launch script, Makefile, Dockerfile, workflow, requirements, job and notebook."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from migrator.config import Settings
from migrator.engine import migrate

WHOLE = Path(__file__).parent.parent / "fixtures" / "projects" / "whole"
# What two ranks of Horovod 0.28.1 printed for before/train.py --epochs 2.
LOSSES = {0: 0.944395, 1: 0.649708}


def test_nothing_of_it_needs_horovod_after_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(WHOLE / "before", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    result = migrate([Path()], Settings(jobs=1))
    assert {program.status for program in result.programs} == {"migrated", "clean"}
    left = {file.path for file in result.files if re.search(rb"horovod|hvd\.", file.after) and file.path != "README.md"}
    # A docstring, the words in which a rank says that it was started wrongly, and a line that a person takes out.
    assert left == {"train.py", "explore.ipynb"}


@pytest.mark.ranks
def test_the_launch_script_trains_on_two_ranks(tmp_path: Path) -> None:
    shutil.copytree(WHOLE / "after", tmp_path, dirs_exist_ok=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", str(tmp_path / "run.sh")],
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    printed = {
        int(epoch): float(loss) for epoch, loss in re.findall(r"epoch (\d): loss ([\d.]+) on 2 ranks", done.stdout)
    }
    assert printed == pytest.approx(LOSSES, abs=1e-5)
