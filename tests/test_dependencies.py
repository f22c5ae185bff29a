"""What is installed: the readers, the taking out of statements, and whether other tools can still read the files."""

from __future__ import annotations

import ast
import configparser
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from ruamel.yaml import YAML

from migrator.config import Settings
from migrator.engine import migrate, migrate_text
from migrator.result import Diagnostic
from migrator.textfiles.dependencies import allows_from, distribution_of
from migrator.textfiles.document import Parts, TextEdit, apply
from migrator.textfiles.requirements import read_requirements
from migrator.textfiles.rows import Row, Span
from migrator.textfiles.setup_cfg import read_setup_cfg
from migrator.textfiles.setup_script import read_setup_script
from migrator.textfiles.shell import read_shell
from migrator.textfiles.statements import without
from migrator.textfiles.toml import read_pipfile, read_pyproject
from migrator.textfiles.yaml import read_yaml

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
BLOCKED = "import horovod.torch as hvd\nfrom horovod.torch.elastic import run\nhvd.init()\nrun\n"
MIGRATED = "import horovod.torch as hvd\nhvd.init()\n"
Reader = Callable[[str], Parts]


def after(name: str, text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    return migrate_text(name, data, Settings(jobs=1)).files[0].after.decode("utf-8", "surrogateescape")


def findings(name: str, text: str | bytes) -> list[Diagnostic]:
    data = text if isinstance(text, bytes) else text.encode()
    return list(migrate_text(name, data, Settings(jobs=1)).findings)


def names(read: Reader, text: str) -> dict[str, list[str]]:
    return {listed.key: [item.name for item in listed.items] for listed in read(text).dependencies}


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("horovod", "horovod"),
        ("Horovod [pytorch, spark] >= 0.28 ; python_version < '3.12'", "horovod"),
        ("horovod @ git+https://github.com/horovod/horovod.git@v0.28.1", "horovod"),
        ("horovod==${HOROVOD_VERSION}", "horovod"),
        ("git+https://github.com/horovod/horovod.git@feature/x#egg=horovod[pytorch]", "horovod"),
        ("git+ssh://git@github.com/horovod/horovod.git@v1", "horovod"),
        ("https://github.com/horovod/horovod/archive/refs/tags/v0.28.1.zip", "horovod"),
        ("https://example.com/horovod-0.28.1%2Bcu117-cp310-cp310-linux_x86_64.whl", "horovod"),
        ("horovod-0.19.2.tar.gz", "horovod"),
        ("./wheels/horovod-0.28.1-cp310-cp310-linux_x86_64.whl", "horovod"),
        ("/horovod/horovod-*.whl", "horovod"),
        ("$(ls /horovod/dist/horovod-*.tar.gz)[spark,ray]", "horovod"),
        ("/tmp/horovod", "horovod"),
        ("conda-forge::horovod=0.28.1=cuda112*", "horovod"),
        ("horovod 0.28.1 py310_0", "horovod"),
        ("lightning-horovod", "lightning-horovod"),
        ("horovod_tools>=1", "horovod-tools"),
        ("https://github.com/someone/pytorch-horovod.git", "pytorch-horovod"),
        ("https://example.com/", ""),
        ("${WHEEL}", ""),
    ],
)
def test_what_a_requirement_installs_is_known(requirement: str, name: str) -> None:
    assert distribution_of(requirement) == name


@pytest.mark.parametrize(
    ("requirement", "allowed"),
    [
        ("torch", True),
        ("torch==2.4.0+cpu", True),
        ("torch>=1.9", True),
        ("torch==2.*", True),
        ("torch==${TORCH}", True),
        ("pytorch=2.3", True),
        ("torch==1.13.1", False),
        ("torch[extra]>=1.9,<2.1 ; python_version > '3'", False),
        ("pytorch=1.12=py3.8_cuda", False),
        ("conda-forge::pytorch=1.*", False),
        ("torch~=1.10", False),
    ],
)
def test_a_version_is_too_old_only_where_none_that_is_new_enough_is_allowed(requirement: str, allowed: bool) -> None:
    assert allows_from(requirement, "2.1") is allowed


def test_a_requirement_takes_its_continuation_and_annotation_along() -> None:
    text = "a==1 \\\n    --hash=sha256:1\n    # via b\nhorovod==1 \\\n  --hash=sha256:2\n    # via\n    #   c\n# d\nd\n"
    assert after("requirements.txt", text) == "a==1 \\\n    --hash=sha256:1\n    # via b\n# d\nd\n"
    (found, *_) = findings("requirements.txt", text)
    assert "compile the file again" in found.message


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (b"a\r\nhorovod[pytorch] # x\r\nb\r\n", b"a\r\nb\r\n"),
        (b"\xef\xbb\xbfhorovod\na\n", b"\xef\xbb\xbfa\n"),
        (b"# caf\xe9\nhorovod\na\n", b"# caf\xe9\na\n"),
        (b"a\nhorovod", b"a\n"),
        (b"horovod\na", b"a"),
        (b"horovod", b""),
        (b"horovod \\\n", b""),
        (b"a\n\nhorovod ; python_version<'3'\n\nb\n", b"a\n\n\nb\n"),
        (b"horovod\n--extra-index-url https://x\nhorovod\n", b"--extra-index-url https://x\n"),
        (b"--no-binary=horovod\n--only-binary a,horovod\na\n", b"--only-binary a\na\n"),
        (b"-e git+https://github.com/horovod/horovod#egg=horovod\n-e .\n", b"-e .\n"),
        (b"--editable=git+https://github.com/horovod/horovod.git\na\n", b"a\n"),
        (b"a\x0c\nhorovod\n", b"a\x0c\n"),
    ],
)
def test_bytes_of_other_lines_stay(before: bytes, expected: bytes) -> None:
    result = migrate_text("requirements.txt", before, Settings(jobs=1))
    assert result.files[0].after == expected


def test_a_list_is_told_from_prose_by_its_name_or_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("requirements/base.txt", "dev-requirements.in", "notes.txt", "constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("horovod\n")
    result = migrate([Path(".")], Settings(jobs=1))
    assert {file.path for file in result.changed} == {"requirements/base.txt", "dev-requirements.in", "constraints.txt"}
    assert [(f.path, f.rule, f.class_) for f in result.findings if f.rule == "HVD010"] == [
        ("notes.txt", "HVD010", "note")
    ]


PYPROJECT = """[build-system]
requires = ["setuptools"]
[project]
dependencies = ["horovod", {}]
[project.optional-dependencies]
x = ["horovod"]
[dependency-groups]
dev = [{{include-group = "a"}}, "horovod"]
[tool.poetry.group.a.dependencies]
horovod = "1"
[tool.pdm.dev-dependencies]
d = ["horovod"]
[tool.hatch.envs.default]
extra-dependencies = ["horovod"]
[tool.isort]
known_third_party = ["horovod"]
"""


def test_the_tables_of_each_tool_are_known() -> None:
    assert names(read_pyproject, PYPROJECT.format('"torch"')) == {
        "build-system.requires": ["setuptools"],
        "project.dependencies": ["horovod", "torch"],
        "project.optional-dependencies.x": ["horovod"],
        "dependency-groups.dev": ["", "horovod"],
        "tool.poetry.group.a.dependencies": ["horovod"],
        "tool.pdm.dev-dependencies.d": ["horovod"],
        "tool.hatch.envs.default.extra-dependencies": ["horovod"],
    }


@pytest.mark.parametrize(
    ("array", "left"),
    [
        ('["horovod"]', "[]"),
        ('["horovod",]', "[]"),
        ('["a", "horovod"]', '["a"]'),
        ('["a", "horovod",]', '["a",]'),
        ('["horovod", "a"]', '["a"]'),
        ('["a", "horovod", "horovod[x]", "b"]', '["a", "b"]'),
        ('[\n  "a",\n  "horovod"  # c\n]', '[\n  "a",\n]'),
        ('[\n  "a", # c\n  "horovod" ]', '[\n  "a", # c\n   ]'),
        ('[\n  "a", "horovod",\n  "horovod",\n  "b"\n]', '[\n  "a",\n  "b"\n]'),
        ('["horovod",\n  "horovod"\n]', "[\n]"),
        ("[\n  'é', \"horovod\"\n]", "[\n  'é'\n]"),
        ('["""horovod""", "a"]', '["a"]'),
    ],
)
def test_an_array_without_horovod_is_one(array: str, left: str) -> None:
    text = f"[project]\nname = 'é'\ndependencies = {array}\n[tool.x]\na = 1 # b\n"
    result = after("pyproject.toml", text)
    assert result == f"[project]\nname = 'é'\ndependencies = {left}\n[tool.x]\na = 1 # b\n"
    tomllib.loads(result)


@pytest.mark.parametrize(
    ("before", "left"),
    [
        ('horovod = "*"\na = "1"\n', 'a = "1"\n'),
        ('"horovod" = {version = "1", extras = ["a"]} # c\n', ""),
        ('horovod.version = "1"\nhorovod.extras = ["x"]\na = "1"\n', 'a = "1"\n'),
        ('horovod = [\n  {version = "1"},\n  {version = "2"},\n]\na = "1"\n', 'a = "1"\n'),
        ('a = "1"\n\n[tool.poetry.dependencies.horovod]\nversion = "1"\n\n[z]\n', 'a = "1"\n\n[z]\n'),
    ],
)
def test_a_table_of_poetry_loses_the_pair(before: str, left: str) -> None:
    assert after("pyproject.toml", f"[tool.poetry.dependencies]\n{before}") == f"[tool.poetry.dependencies]\n{left}"


def test_pipfile_tables_are_dependencies_but_for_its_own() -> None:
    text = "[[source]]\nname = 'horovod'\n[packages]\nhorovod = '*'\n[requires]\nhorovod = '1'\n[more]\nhorovod = '*'\n"
    assert names(read_pipfile, text) == {"packages": ["horovod"], "more": ["horovod"]}


def test_an_extra_called_after_horovod_goes_unless_something_refers_to_it() -> None:
    head = "[project.optional-dependencies]\n"
    assert after("pyproject.toml", f'{head}horovod = ["horovod"]\na = ["b"]\n') == f'{head}a = ["b"]\n'
    assert "horovod = []" in after("pyproject.toml", f'{head}horovod = ["horovod"]\nall = ["x[horovod,b]"]\n')
    assert "hpc = []" in after("pyproject.toml", f'{head}hpc = ["horovod"]\n')
    setup = "from setuptools import setup\nE = {'horovod': ['horovod'], 'a': ['b']}\n"
    assert "E = {'a': ['b']}" in after("setup.py", setup + "setup(extras_require=E)\n")
    used = setup + "E['all'] = E['horovod'] + ['c']\nsetup(extras_require=E)\n"
    assert "'horovod': []," in after("setup.py", used)


def test_setup_cfg_lists_are_read_as_setuptools_does() -> None:
    text = (
        "[options]\ninstall_requires = a; horovod\ntests_require =\n  a\n  ; b\n  horovod>1\n\n[metadata]\nname = h\n"
    )
    assert names(read_setup_cfg, text) == {
        "options.install_requires": ["a", "horovod"],
        "options.tests_require": ["a", "horovod"],
    }
    result = after("setup.cfg", text)
    assert result == text.replace("; horovod", "").replace("  horovod>1\n", "")
    configparser.RawConfigParser().read_string(result)


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("['horovod']", "[]"),
        ("('a', 'horovod')", "('a',)"),
        ("('horovod', 'a')", "('a',)"),
        ("('a', 'horovod',)", "('a',)"),
        ("('horovod',)", "()"),
        ("('a', 'b', 'horovod')", "('a', 'b')"),
        ("{'a', 'horovod'}", "{'a'}"),
        ("['a'] + ['horovod', 'b']", "['a'] + ['b']"),
        ("['é', 'horovod', 'b']", "['é', 'b']"),
        ("f(['horovod', x], *y)", "f([x], *y)"),
    ],
)
def test_lists_of_setup_scripts_stay_lists(value: str, left: str) -> None:
    text = f"from setuptools import setup\nsetup(name='x', install_requires={value}, keywords=['horovod'])\n"
    result = after("setup.py", text)
    assert result == text.replace(value, left, 1)
    ast.parse(result)


def test_names_in_a_setup_script_are_followed() -> None:
    text = (
        "import setuptools\n\ndef more():\n    return ['horovod']\n\nA = ['horovod']\nA += ['horovod']\nB: list = A\n"
        "C = ['horovod']\nA.extend(['horovod', 'z'])\nA.append('horovod')\n"
        "setuptools.setup(install_requires=B + more(), packages=C)\n"
    )
    result = after("setup.py", text)
    assert result.count("horovod") == 2
    assert "C = ['horovod']" in result
    assert any(f.line == 11 and f.class_ == "review" and "by hand" in f.message for f in findings("setup.py", text))


def test_a_program_called_setup_is_a_program() -> None:
    text = "import horovod.torch as hvd\nimport setuptools\nhvd.init()\n"
    assert "init_process_group" in after("setup.py", text)


CONDA = "dependencies:\n- python\n- horovod # x\n- pip\n- pip:\n  - {}\n  - horovod\nchannels: [horovod]\n"


def test_conda_lists_and_the_list_of_pip_within() -> None:
    result = after("environment.yml", CONDA.format("six"))
    assert result == "dependencies:\n- python\n- pip\n- pip:\n  - six\nchannels: [horovod]\n"
    emptied = after("environment.yml", CONDA.format("horovod==1"))
    assert emptied == "dependencies:\n- python\n- pip\nchannels: [horovod]\n"
    assert YAML(typ="safe").load(emptied)["dependencies"] == ["python", "pip"]


@pytest.mark.parametrize("text", ["dependencies:\n- horovod\n", "dependencies:\n- pip:\n  - horovod\n"])
def test_a_list_that_may_not_be_empty_is_left_and_named(text: str) -> None:
    assert after("environment.yml", text) == text
    (found,) = [f for f in findings("environment.yml", text) if f.rule == "HVD652"]
    assert found.class_ == "review"
    assert "by hand" in found.message


@pytest.mark.parametrize("name", ["pyproject.toml", "Pipfile", "setup.cfg", "environment.yml", "setup.py"])
def test_broken_input_is_named_and_left(name: str) -> None:
    text = "import setuptools\n[x\n: - {horovod\n= [\n"
    assert after(name, text) == text
    assert any(f.class_ in ("review", "blocked") for f in findings(name, text))


def gone(text: str) -> str:
    parts = read_shell(text)
    places = [(c.place, c.within) for c in parts.commands if c.place and any(w.value == "horovod" for w in c.words)]
    return apply(text, (edit for edit, _ in without(places)))


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("pip install horovod\n", ""),
        ("a\npip install horovod # why\nb\n", "a\nb\n"),
        ("a\n\npip install horovod\n\nb\n", "a\n\nb\n"),
        ("a && X=1 pip install horovod && b\n", "a && b\n"),
        ("pip install horovod && b || c\n", "b || c\n"),
        ("a && \\\n  pip install horovod\n", "a\n"),
        ("a || pip install horovod\n", "a || :\n"),
        ("pip install horovod || exit 1\na\n", "a\n"),
        ("pip install horovod; a\n", "a\n"),
        ("a; pip install horovod\n", "a\n"),
        ("a; pip install horovod; b\n", "a; b\n"),
        ("set -x; \\\n    pip install horovod\n", "set -x\n"),
        ("pip install horovod | tee log\na\n", "a\n"),
        ("pip install horovod > log 2>&1\na\n", "a\n"),
        ("if a; then\n  pip install horovod\nfi\n", "if a; then\n  :\nfi\n"),
        ("if a; then b; pip install horovod; else pip install horovod; fi\n", "if a; then b; else :; fi\n"),
        ("if a; then\n  pip install horovod\n  b\nfi\n", "if a; then\n  b\nfi\n"),
        ("for i in 1; do pip install horovod; done\n", "for i in 1; do :; done\n"),
        ("f() {\n  pip install horovod\n}\n", "f() {\n  :\n}\n"),
        ("(pip install horovod)\n", "(:)\n"),
        ("case $a in\n  b) pip install horovod ;;\nesac\n", "case $a in\n  b) : ;;\nesac\n"),
        ("x=$(pip install horovod)\n", "x=$(:)\n"),
        ("bash -c 'pip install horovod' && a\n", "a\n"),
        ("bash -c 'a && pip install horovod'\n", "bash -c 'a'\n"),
        ("pip install horovod && pip install horovod && a\n", "a\n"),
        ("a && pip install horovod && pip install horovod\n", "a\n"),
        ("pip install horovod\npip install horovod\na\n", "a\n"),
    ],
)
def test_shell_without_a_statement_is_shell(before: str, expected: str) -> None:
    assert gone(before) == expected
    assert not read_shell(expected).problem


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("pip install torch horovod[pytorch] six", "pip install torch six"),
        ("pip install 'horovod>=0.2' torch", "pip install torch"),
        ("pip3 install --no-binary horovod horovod torch", "pip3 install torch"),
        ("pip install --no-binary=horovod horovod torch", "pip install torch"),
        ("python3.8 -m pip install -U horovod torch", "python3.8 -m pip install -U torch"),
        ("$PYTHON -m pip install horovod torch", "$PYTHON -m pip install torch"),
        ("sudo -H pip install horovod torch", "sudo -H pip install torch"),
        ("conda run -n env pip install horovod torch", "conda run -n env pip install torch"),
        ("uv pip install horovod torch", "uv pip install torch"),
        ("poetry add horovod torch", "poetry add torch"),
        ("conda create -n x horovod", "conda create -n x"),
        ("conda install -c conda-forge horovod=0.28 torch", "conda install -c conda-forge torch"),
        ("pip install -r requirements.txt horovod", "pip install -r requirements.txt"),
        ("pip install -e . horovod", "pip install -e ."),
        ("pip install -e git+https://github.com/horovod/horovod#egg=horovod torch", "pip install torch"),
        ("HOROVOD_WITH_PYTORCH=1 FORCE=1 pip install horovod torch", "FORCE=1 pip install torch"),
        ("pip install -c constraints.txt horovod", ""),
        ("pip install --find-links https://x horovod", ""),
        ("mamba install -y horovod", ""),
        ("pip uninstall -y horovod", ""),
        ("export HOROVOD_WITH_PYTORCH=1 && pip install horovod", ""),
        ("pip download horovod_tools", "pip download horovod_tools"),
        ("echo pip install horovod", "echo pip install horovod"),
        ("./pip install horovod-extras", "./pip install horovod-extras"),
    ],
)
def test_commands_that_install(before: str, expected: str) -> None:
    text = f"a\n{before}\nb\n"
    assert after("install.sh", text) == (f"a\n{expected}\nb\n" if expected else "a\nb\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pip show horovod\n", "has to do with Horovod"),
        ("git clone https://github.com/horovod/horovod.git\n", "has to do with Horovod"),
        ("if python -c 'import horovod'; then a; fi\n", "has to do with Horovod"),
        ("x=$(python -c 'import horovod.torch')\n", "has to do with Horovod"),
        ("pip install .[horovod]\n", "extra horovod"),
    ],
)
def test_what_has_to_do_with_horovod_otherwise_is_named_and_left(text: str, message: str) -> None:
    assert after("install.sh", text) == text
    assert any(found.class_ == "review" and message in found.message for found in findings("install.sh", text))


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("RUN pip install a \\\n    # why\n    horovod\n", "RUN pip install a\n    # why\n"),
        ("RUN pip install a \\\r\n    # b\r\n    horovod\r\nUSER x\r\n", "RUN pip install a\r\n    # b\r\nUSER x\r\n"),
        ("RUN pip install \\\n    horovod \\\n    # why\n    a\n", "RUN pip install \\\n    # why\n    a\n"),
        ("RUN pip install a \\\n    horovod \\\n    b\n", "RUN pip install a \\\n    b\n"),
        ("RUN pip install a horovod\n", "RUN pip install a\n"),
        ("RUN a <<< b; pip install horovod\nRUN pip install horovod\n", "RUN a <<< b\n"),
        (
            "RUN --mount=type=cache,target=/a a <<< b && pip install horovod\n",
            "RUN --mount=type=cache,target=/a a <<< b\n",
        ),
        ("RUN <<EOF\npip install horovod\nls\nEOF\nRUN pip install horovod\nUSER x\n", "RUN <<EOF\nls\nEOF\nUSER x\n"),
        (
            "ENV A=1 \\\n    # b\n    HOROVOD_CYCLE_TIME=1 \\\n    # c\n    D=1\n",
            "ENV A=1 \\\n    # b\n    # c\n    D=1\n",
        ),
        ("ENV HOROVOD_CYCLE_TIME=1 A=1\n", "ENV A=1\n"),
        ("ENV HOROVOD_CYCLE_TIME 1\nARG HOROVOD_WITH_MPI\n", ""),
        ("ARG HVD=1\nARG HVD_VERSION=1\nRUN pip install horovod==$HVD_VERSION && ls\n", "ARG HVD=1\nRUN ls\n"),
        ("RUN P='python -m pip install' && $P a && $PIP_INSTALL horovod\n", "RUN P='python -m pip install' && $P a\n"),
        ("RUN pip install horovod", ""),
    ],
)
def test_instructions_of_a_dockerfile(before: str, expected: str) -> None:
    assert after("Dockerfile", before) == expected
    assert after("Dockerfile", expected) == expected


@pytest.mark.parametrize(
    ("name", "before", "expected"),
    [
        ("ci.yml", "- name: pip install horovod\n  run: make\n", "- name: pip install horovod\n  run: make\n"),
        ("ci.yml", "- run: a\n- name: x\n  run: pip install horovod\n", "- run: a\n"),
        ("ci.yml", "- run: a\n- id: x\n  run: pip install horovod\n", '- run: a\n- id: x\n  run: ":"\n'),
        ("ci.yml", "script:\n- pip install horovod\n", 'script:\n- ":"\n'),
        ("ci.yml", "script:\n- pip install horovod\n- a\n", "script:\n- a\n"),
        ("ci.yml", "a: [pip install horovod, b]\n", 'a: [":", b]\n'),
        ("ci.yml", "run: >\n  pip install horovod\n  six\n", "run: >\n  pip install\n  six\n"),
        ("ci.yml", "env: {HOROVOD_CYCLE_TIME: 1, A: 2}\n", "env: {A: 2}\n"),
        ("ci.yml", "flags: HOROVOD_WITH_MPI=1\n", "flags: HOROVOD_WITH_MPI=1\n"),
        ("compose.yml", "environment:\n- HOROVOD_CYCLE_TIME=1\n- A=1\n", "environment:\n- A=1\n"),
        ("compose.yml", "a: 1\nenvironment:\n- HOROVOD_CYCLE_TIME=1\n", "a: 1\n"),
        ("compose.yml", "environment: [HOROVOD_CYCLE_TIME=1]\n", "environment: []\n"),
        ("compose.yml", "args: [-e, HOROVOD_CYCLE_TIME=1]\n", "args: [-e, HOROVOD_CYCLE_TIME=1]\n"),
        ("Makefile", "a:\n\t$(PIP) install horovod b\n\t@$(PIP) install horovod\n", "a:\n\t$(PIP) install b\n"),
        ("Makefile", "export HOROVOD_CYCLE_TIME = 1\nHOROVOD_WITH_MPI := 1\na:\n", "a:\n"),
        ("Makefile", "a:\n\tcd x; \\\n\tpip install horovod\n", "a:\n\tcd x\n"),
        (
            "ci.yml",
            "a: &x horovod\ndependencies: [*x, b, horovod]\n",
            "a: &x horovod\ndependencies: [*x, b, horovod]\n",
        ),
        ("ci.yml", "a: &x [b, horovod]\ndependencies: *x\n", "a: &x [b]\ndependencies: *x\n"),
        ("tox.ini", "[testenv]\ndeps =\n  a\n  horovod\n", "[testenv]\ndeps =\n  a\n"),
        ("run.sh", "export HOROVOD_WITH_MPI=1 A=2\n", "export A=2\n"),
        ("run.sh", "export HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 # c\nb\n", "b\n"),
        ("run.sh", "export HOROVOD_WITH_MPI=1; b\n", "b\n"),
        ("run.sh", "A=1 HOROVOD_CYCLE_TIME=2 python x.py\n", "A=1 python x.py\n"),
        ("run.sh", "HOROVOD_CYCLE_TIME=2 HOROVOD_TIMELINE=x python x.py\n", "python x.py\n"),
        ("run.sh", "HOROVOD_RANK=$OMPI_COMM_WORLD_RANK\necho ${HOROVOD_SIZE:?}\n", "echo ${WORLD_SIZE:?}\n"),
        ("run.sh", "HOROVOD_SIZE=2\necho $HOROVOD_SIZE\n", "HOROVOD_SIZE=2\necho $HOROVOD_SIZE\n"),
        ("run.sh", "HOROVOD_OURS=1\nHOROVOD_CYCLE_TIME=1\n", "HOROVOD_OURS=1\n"),
        (
            "run.sh",
            "HOROVOD_CYCLE_TIME=1\necho $HOROVOD_CYCLE_TIME\n",
            "HOROVOD_CYCLE_TIME=1\necho $HOROVOD_CYCLE_TIME\n",
        ),
    ],
)
def test_variables_and_commands_in_other_files(name: str, before: str, expected: str) -> None:
    assert after(name, before) == expected
    assert after(name, expected) == expected


def test_variables_of_mpi_are_read_otherwise_only_near_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = "export CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK\n"
    (tmp_path / ".git").mkdir()
    for name in ("a/scripts/bind.sh", "b/bind.sh"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(script)
    (tmp_path / "a" / "train.py").write_text(MIGRATED)
    result = migrate([Path(".")], Settings(jobs=1))
    assert {file.path for file in result.changed} == {"a/train.py", "a/scripts/bind.sh"}
    (left,) = [f for f in result.findings if f.path == "b/bind.sh"]
    assert (left.rule, left.class_) == ("HVD653", "review")


@pytest.mark.parametrize(
    "line", ["env HOROVOD_CYCLE_TIME=1 a", "docker run -e HOROVOD_TIMELINE=x a", "unset HOROVOD_X"]
)
def test_variables_that_are_handed_on_are_named(line: str) -> None:
    assert after("run.sh", f"{line}\n") == f"{line}\n"
    assert findings("run.sh", f"{line}\n")


def test_sparkdl_stays_where_more_of_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("sparkdl\nhorovod\n")
    assert after("requirements.txt", "sparkdl\nhorovod\n") == ""
    (tmp_path / "features.py").write_text("from sparkdl import DeepImageFeaturizer\n")
    (changed,) = migrate([Path(".")], Settings(jobs=1)).changed
    assert changed.after == b"sparkdl\n"


def test_a_result_that_cannot_be_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Row, "without", lambda self, text, gone: [TextEdit(Span(0, 0), "]")])
    text = '[project]\ndependencies = ["horovod"]\n'
    assert after("pyproject.toml", text) == text
    assert any(f.class_ == "blocked" and "could not be read" in f.message for f in findings("pyproject.toml", text))


def test_a_test_of_horovod_goes_with_it() -> None:
    text = "RUN pip install horovod && python -c 'import horovod.torch as h; h.init()' && ls\n"
    assert after("Dockerfile", text) == "RUN ls\n"
    assert after("Dockerfile", "RUN python3 -c 'from horovod import torch; print(torch)'\nUSER a\n") == "USER a\n"


@pytest.mark.parametrize(
    "code", ["import torch, horovod.torch", "from horovod import", "if 1: import horovod", "horovod = 1"]
)
def test_code_that_does_more_than_try_horovod_stays(code: str) -> None:
    text = f"RUN python -c '{code}'\n"
    assert after("Dockerfile", text) == text


def test_an_instruction_in_the_form_of_a_list_is_named() -> None:
    text = 'RUN ["pip", "install", "horovod"]\nRUN ["pip", "install", "torch", "horovod"]\n'
    assert after("Dockerfile", text) == text.replace(', "horovod"]\n', "]\n").replace(
        '"install"]', '"install", "horovod"]'
    )
    assert any("by hand" in found.message for found in findings("Dockerfile", text))


def test_what_the_program_needs_takes_horovods_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = (
        "import horovod.tensorflow.keras as hvd\nimport tensorflow as tf\nfrom sparkdl import HorovodRunner\n\n"
        "def train():\n    hvd.init()\n    print(hvd.rank())\n\nHorovodRunner(np=2).run(train)\n"
    )
    files = {
        "train.py": program,
        "requirements.txt": "tensorflow\nhorovod[tensorflow]  # runs\nsparkdl\nsix\n",
        "pyproject.toml": '[project]\ndependencies = ["horovod", "six"]\n[tool.poetry.dependencies]\nhorovod = "1"\n',
        "environment.yml": "dependencies:\n  - python\n  - horovod\n  - pip:\n      - horovod\n      - pyspark==3.3\n",
        "install.sh": "pip install horovod six\n",
        "Pipfile": '[packages]\nhorovod = "*"\n',
        "setup.py": "from setuptools import setup\nsetup(install_requires=['horovod', 'six'])\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    made = {file.path: file.after.decode() for file in migrate([Path(".")], Settings(jobs=1)).changed}
    needed = "spark-tensorflow-distributor"
    assert made["requirements.txt"] == f"tensorflow\n{needed}  # runs\nsix\n"
    assert made["pyproject.toml"] == (
        f'[project]\ndependencies = ["{needed}", "six"]\n[tool.poetry.dependencies]\n{needed} = "*"\n'
    )
    assert made["environment.yml"] == f"dependencies:\n  - python\n  - pip:\n      - {needed}\n      - pyspark==3.3\n"
    assert made["install.sh"] == f"pip install six {needed}\n"
    assert made["Pipfile"] == f'[packages]\n{needed} = "*"\n'
    assert made["setup.py"] == f"from setuptools import setup\nsetup(install_requires=['{needed}', 'six'])\n"


def test_a_version_that_the_target_cannot_run_with_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "import horovod.torch as hvd\nfrom sparkdl import HorovodRunner\n\n"
        "def train():\n    hvd.init()\n\nHorovodRunner(np=2).run(train)\n"
    )
    (tmp_path / "requirements.txt").write_text("torch==2.0.1\npyspark==3.3.0\nhorovod\nmpi4py\n")
    result = migrate([Path(".")], Settings(jobs=1))
    said = {f.line: f.message for f in result.findings if f.path == "requirements.txt"}
    assert "needs torch>=2.1" in said[1]
    assert "needs pyspark>=3.4" in said[2]
    assert "MPI" in said[4]
    assert result.changed[0].after == b"torch==2.0.1\npyspark==3.3.0\nmpi4py\n"


@pytest.mark.parametrize("program", [BLOCKED, MIGRATED])
def test_horovod_stays_while_a_program_uses_it(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "train.py").write_text(program)
    (tmp_path / "other.py").write_text(MIGRATED)
    names = ("requirements.txt", "one/Dockerfile", "setup.py")
    (tmp_path / names[0]).write_text("horovod\n")
    (tmp_path / names[1]).write_text("ENV HOROVOD_CYCLE_TIME=1\nRUN pip install horovod\n")
    (tmp_path / names[2]).write_text("from setuptools import setup\nsetup(install_requires=['horovod'])\n")
    result = migrate([Path(".")], Settings(jobs=1))
    changed = {file.path for file in result.changed} & set(names)
    said = [f for f in result.findings if f.path in names]
    if program == MIGRATED:
        assert changed == set(names)
        return
    assert not changed
    assert {(f.path, f.line) for f in said} >= {(names[0], 1), (names[1], 1), (names[1], 2), (names[2], 2)}
    assert all(f.class_ == "review" and "stays while one/train.py still uses Horovod" in f.message for f in said)


def test_a_file_joins_the_program_that_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(MIGRATED)
    (tmp_path / "requirements.txt").write_text("horovod\n")
    (tmp_path / "setup.py").write_text("from setuptools import setup\nsetup(install_requires=['horovod'])\n")
    (program,) = migrate([Path(".")], Settings(jobs=1)).programs
    assert set(program.files) == {"train.py", "requirements.txt", "setup.py"}


@pytest.mark.parametrize(
    ("name", "tool"), [("poetry.lock", "poetry lock"), ("uv.lock", "uv lock"), ("Pipfile.lock", "pipenv lock")]
)
def test_a_lock_file_is_made_again(name: str, tool: str) -> None:
    text = 'name = "horovod"\n'
    assert after(name, text) == text
    (found,) = findings(name, text)
    assert found.class_ == "review"
    assert tool in found.message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "a\n" * 20000 + "horovod\n" * 200),
        ("pyproject.toml", '[project]\ndependencies = [\n  "a",\n' + '  "horovod",\n' * 3000 + "]\n"),
        ("setup.py", "from setuptools import setup\nsetup(install_requires=[" + "'horovod', " * 3000 + "])\n"),
        ("environment.yml", "dependencies:\n  - a\n" + "  - horovod\n" * 2000),
        ("install.sh", "export HOROVOD_CYCLE_TIME=1\npip install horovod\n" * 300),
        ("setup.py", "from setuptools import setup\nsetup(install_requires=" + "[" * 3000 + "'horovod'" + "]" * 3000),
        ("install.sh", "pip install horovod && " * 400 + "a\n"),
        ("environment.yml", "[" * 300 + "horovod"),
        ("pyproject.toml", "a = " + "[" * 2000 + "'horovod'"),
    ],
    ids=range(9),
)
def test_large_files_take_no_more_than_seconds(name: str, text: str) -> None:
    start = time.process_time()
    result = migrate_text(name, text.encode(), Settings(jobs=1))
    assert result.files
    assert time.process_time() - start < 10


MADE = [path for path in sorted(FIXTURES.glob("*/*/after/**/*")) if path.is_file() and path.suffix != ".py"]


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.relative_to(FIXTURES).as_posix())
def test_other_tools_read_what_is_left(path: Path) -> None:
    text = path.read_text("utf-8")
    if path.name.endswith((".toml", "Pipfile")):
        tomllib.loads(text)
    elif path.suffix in (".yml", ".yaml"):
        assert read_yaml(text).problem is None
    elif path.suffix == ".cfg":
        configparser.RawConfigParser().read_string(text)
    elif path.suffix == ".txt" and "--hash" not in text:
        for item in read_requirements(text).dependencies[0].items:
            assert not item.name or Requirement(item.text)


def test_rows_cut_each_stretch_once() -> None:
    text = "[a, b, c, d]"
    row = Row(tuple(Span(place, place + 1) for place in (1, 4, 7, 10)))
    assert apply(text, row.without(text, {1: "", 2: ""})) == "[a, d]"
    assert apply(text, row.without(text, {0: "", 3: ""})) == "[b, c]"
    assert apply(text, row.without(text, {0: "x", 3: ""})) == "[x, b, c]"
    assert apply(text, row.without(text, dict.fromkeys(range(4), ""))) == "[]"


def test_what_is_left_of_continued_pairs_follows_the_instruction() -> None:
    first = "ENV HOROVOD_WITH_PYTORCH=1 \\\n    HOROVOD_WITH_GLOO=1 \\\n    A=1\n"
    text = f"FROM a\n{first}ENV B=1 \\\n    HOROVOD_CYCLE_TIME=1\n"
    [file] = migrate_text("Dockerfile", text.encode(), Settings(jobs=1)).files
    assert file.after == b"FROM a\nENV A=1\nENV B=1\n"


def test_readers_agree_on_nothing_to_read() -> None:
    readers = (
        read_requirements,
        read_pyproject,
        read_pipfile,
        read_setup_cfg,
        read_setup_script,
        read_yaml,
        read_shell,
    )
    for read in readers:
        assert not any(item.name for listed in read("").dependencies for item in listed.items)
