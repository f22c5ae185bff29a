"""The helpers of TensorFlow programs: what their features make of them, and a launch of workers by one."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from migrator.helpers import helper_source
from migrator.imports import helper_module_text

SOURCES = Path(__file__).parents[1] / "migrator" / "helpers" / "sources" / "tensorflow"
NAMES = sorted(path.stem for path in SOURCES.glob("*.py"))
KERAS: list[set[str]] = [set(), {"keras_2"}, {"keras_3"}]


def choices(name: str) -> list[frozenset[str]]:
    """The sets of features that rules ask a helper for."""
    conditions = re.findall(r"  # (with.*)$", (SOURCES / f"{name}.py").read_text("utf-8"), re.MULTILINE)
    words = set(re.findall(r"with(?:out)? (\w+)", " ".join(conditions)))
    wanted = sorted(words - {"keras_2", "keras_3", "options"})
    sets = [set(each) for number in range(len(wanted) + 1) for each in itertools.combinations(wanted, number)]
    with_options = [each | ({"options"} if each & {"compression", "dense"} else set()) for each in sets]
    keras = KERAS if "keras_2" in words or "keras_3" in words else KERAS[:1]
    return [frozenset(each | version) for each in with_options for version in keras]


VARIANTS = [(name, features) for name in NAMES for features in choices(name)]


@pytest.mark.parametrize("name", NAMES)
def test_variants_are_documented_functions_that_differ(name: str) -> None:
    texts = [helper_source(f"tensorflow.{name}", features).text for features in choices(name)]
    for text in texts:
        definition = ast.parse(text).body[0]
        assert isinstance(definition, (ast.FunctionDef, ast.ClassDef))
        assert (ast.get_docstring(definition) or "").endswith((".", ";"))
    assert len(set(texts)) > 1 or len(texts) == 1


def test_what_is_written_is_formatted_and_complete(tmp_path: Path) -> None:
    for number, (name, features) in enumerate(VARIANTS):
        text = helper_module_text([(f"tensorflow.{name}", features)])
        (tmp_path / f"{name}_{number}.py").write_text(text)
    ruff = [sys.executable, "-m", "ruff"]
    options = ["--isolated", "--line-length", "120", "--target-version", "py311", "."]
    for command in (["check", "--select", "F,E,W"], ["format", "--diff"]):
        done = subprocess.run([*ruff, *command, *options], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[:3000] + done.stderr[:1000]
