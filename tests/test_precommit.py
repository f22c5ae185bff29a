"""The hooks, run by the real pre-commit on a scratch repository, from a commit of the working tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PRE_COMMIT = shutil.which("pre-commit", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
PACKAGED = ("migrator", "rules", "pyproject.toml", "README.md", ".pre-commit-hooks.yaml")
PROGRAM = "import horovod.torch as hvd\n\nhvd.init()\nprint(hvd.rank())\n"

pytestmark = pytest.mark.skipif(PRE_COMMIT is None, reason="pre-commit is not installed")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "core.hooksPath=/dev/null")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "scratch")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Without what an outer git or coverage run leaves in the environment, and with an own hook store."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "COV", "PYTHON"))}
    return kept | {"PRE_COMMIT_HOME": str(tmp_path_factory.mktemp("store")), "PRE_COMMIT_COLOR": "never"}


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A repository that offers the hooks: what is packaged, as it is in the working tree."""
    folder = tmp_path_factory.mktemp("hooks")
    for name in PACKAGED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    return folder, commit(folder)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a Horovod program in a subfolder and a plain file."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(PROGRAM)
    (tmp_path / "plain.py").write_text("print('plain')\n")
    return tmp_path


def run_hook(
    project: Path, hooks: tuple[Path, str], hook: str, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    folder, revision = hooks
    (project / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: '{folder.as_posix()}'\n  rev: {revision}\n  hooks:\n  - id: {hook}\n"
    )
    commit(project)
    assert PRE_COMMIT
    command = [PRE_COMMIT, "run", "--all-files", "--verbose", hook]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)


def test_rewriting_hook(project: Path, hooks: tuple[Path, str], environment: dict[str, str]) -> None:
    first = run_hook(project, hooks, "hvd-migrate", environment)
    assert first.returncode == 1, first.stdout + first.stderr
    assert "files were modified by this hook" in first.stdout
    assert "exit code" not in first.stdout
    assert "horovod" not in (project / "src" / "train.py").read_text()
    assert git(project, "diff", "--name-only") == "src/train.py"

    second = run_hook(project, hooks, "hvd-migrate", environment)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "No Horovod found in 3 files." in second.stdout


def test_checking_hook(project: Path, hooks: tuple[Path, str], environment: dict[str, str]) -> None:
    first = run_hook(project, hooks, "hvd-migrate-check", environment)
    assert first.returncode == 1, first.stdout + first.stderr
    assert "exit code: 1" in first.stdout
    assert "src/train.py:" in first.stdout
    assert git(project, "status", "--porcelain") == ""

    (project / "src" / "train.py").unlink()
    second = run_hook(project, hooks, "hvd-migrate-check", environment)
    assert second.returncode == 0, second.stdout + second.stderr
