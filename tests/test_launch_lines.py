# ruff: noqa: E501
"""Lines that start ranks, in every kind of file: what they become, what is said of them, and when they stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.config import Settings
from migrator.engine import migrate, migrate_text
from migrator.result import Result

SETTINGS = Settings(jobs=1)
TORCH = "import horovod.torch as hvd\n\nhvd.init()\nprint(hvd.rank())\n"
TENSORFLOW = "import tensorflow as tf\nimport horovod.tensorflow as hvd\n\nhvd.init()\nprint(hvd.rank())\n"
BLOCKED = "import horovod.torch as hvd\n\nhvd.init()\nhvd.start_timeline_of_my_own()\n"


def text_of(name: str, text: str) -> tuple[str, Result]:
    result = migrate_text(name, text.encode(), SETTINGS)
    return result.files[0].after.decode(), result


def line_of(line: str) -> str:
    """The new line, without the newline that ends it."""
    text, result = text_of("run.sh", f"# horovod\n{line}\n")
    again, second = text_of("run.sh", text)
    assert again == text
    assert not [f for f in second.findings if f.rule == "HVD651"] or text == f"# horovod\n{line}\n"
    assert result.files
    return text.removeprefix("# horovod\n").removesuffix("\n")


ONE_HOST = [
    ("horovodrun -np 4 python train.py", "torchrun --standalone --nproc-per-node=4 train.py"),
    ("horovodrun -np 4 -H localhost:4 python train.py --lr 0.1", "torchrun --standalone --nproc-per-node=4 train.py --lr 0.1"),
    ("horovodrun --num-proc=4 --gloo python3 -u train.py", "torchrun --standalone --nproc-per-node=4 train.py"),
    ("horovodrun -np $N python train.py", "torchrun --standalone --nproc-per-node=$N train.py"),
    ('horovodrun -np "$N" python train.py "$@"', 'torchrun --standalone --nproc-per-node="$N" train.py "$@"'),
    ("horovodrun -np 2 python -m pkg.train --x", "torchrun --standalone --nproc-per-node=2 -m pkg.train --x"),
    ("horovodrun -np 2 ./train.py", "torchrun --standalone --nproc-per-node=2 ./train.py"),
    ("horovodrun -np 2 bash run.sh python train.py", "torchrun --standalone --nproc-per-node=2 --no-python bash run.sh python train.py"),
    ("horovodrun -np 2 /opt/py/bin/python train.py", "/opt/py/bin/python -m torch.distributed.run --standalone --nproc-per-node=2 train.py"),
    ("horovodrun -np 2 ${PYTHON} train.py", "${PYTHON} -m torch.distributed.run --standalone --nproc-per-node=2 train.py"),
    ("horovodrun -np 2 python -W ignore train.py", "torchrun --standalone --nproc-per-node=2 --no-python python -W ignore train.py"),
    ("horovodrun -np 2 python -c 'import a'", "torchrun --standalone --nproc-per-node=2 --no-python python -c 'import a'"),
    ("horovodrun -H node7:8 -np 8 python train.py", "torchrun --standalone --nproc-per-node=8 train.py"),
    ("horovodrun -H localhost:3 python train.py", "torchrun --standalone --nproc-per-node=3 train.py"),
    ("horovodrun -np 2 --output-filename logs python train.py", "torchrun --standalone --nproc-per-node=2 --log-dir=logs --redirects=3 train.py"),
    ("time horovodrun -np 2 python train.py 2>&1 | tee log &", "time torchrun --standalone --nproc-per-node=2 train.py 2>&1 | tee log &"),
    ("A=1 horovodrun -np 2 python train.py > out", "A=1 torchrun --standalone --nproc-per-node=2 train.py > out"),
    ("mpirun -np 2 -x A=b -x PATH -mca pml ob1 -bind-to none python train.py", "A=b torchrun --standalone --nproc-per-node=2 train.py"),
    ("nohup mpirun -np 2 -x A=b python train.py", "nohup env A=b torchrun --standalone --nproc-per-node=2 train.py"),
    ("mpirun -n 2 -x HOROVOD_CYCLE_TIME=1 --allow-run-as-root python train.py", "torchrun --standalone --nproc-per-node=2 train.py"),
    ("mpiexec -genv A b -n 2 python train.py", "A=b torchrun --standalone --nproc-per-node=2 train.py"),
    ("mpirun -n 2 -genv A=$B -genv C=\"d e\" -genv E f python train.py", "A=$B C=\"d e\" E=f torchrun --standalone --nproc-per-node=2 train.py"),
    ("/usr/local/bin/mpirun -np 2 python train.py", "torchrun --standalone --nproc-per-node=2 train.py"),
    ("horovodrun -np 2 --network-interface eth0 python train.py", "GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME=eth0 torchrun --standalone --nproc-per-node=2 train.py"),
    ("CMD='horovodrun -np 2 python train.py'", "CMD='torchrun --standalone --nproc-per-node=2 train.py'"),
    ('bash -c "cd x && horovodrun -np 2 python train.py"', 'bash -c "cd x && torchrun --standalone --nproc-per-node=2 train.py"'),
    ('LAUNCH="horovodrun -np 2"', 'LAUNCH="torchrun --standalone --nproc-per-node=2 --no-python"'),
    ("docker run image horovodrun -np 2 python train.py", "docker run image torchrun --standalone --nproc-per-node=2 train.py"),
    ("horovodrun --check-build", 'python -c "import torch.distributed as d; assert d.is_available()"'),
    ('bash -c "horovodrun -cb"', "bash -c \"python -c 'import torch.distributed as d; assert d.is_available()'\""),
    ("horovodrun -np 2 \\\n  --verbose \\\n  python train.py \\\n  --lr 0.1", "torchrun --standalone --nproc-per-node=2 \\\n  train.py \\\n  --lr 0.1"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), ONE_HOST)
def test_one_host(before: str, after: str) -> None:
    assert line_of(before) == after


RENDEZVOUS = "--rdzv-backend=c10d --rdzv-endpoint=a:29400"
SEVERAL_HOSTS = [
    ("horovodrun -np 8 -H a:4,b:4 python train.py", f"torchrun --nnodes=2 --nproc-per-node=4 {RENDEZVOUS} train.py"),
    ("horovodrun -H a:4,b:4 python train.py", f"torchrun --nnodes=2 --nproc-per-node=4 {RENDEZVOUS} train.py"),
    ('mpirun -np 4 -host "a:2,b:2,c:2" python train.py', f"torchrun --nnodes=2 --nproc-per-node=2 {RENDEZVOUS} train.py"),
    ("mpirun -npernode 2 -H a,b python train.py", f"torchrun --nnodes=2 --nproc-per-node=2 {RENDEZVOUS} train.py"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), SEVERAL_HOSTS)
def test_several_hosts(before: str, after: str) -> None:
    assert line_of(before) == after
    [finding] = [f for f in text_of("run.sh", f"# horovod\n{before}\n")[1].findings if f.rule == "HVD651"]
    assert "every host, a and b" in finding.message


LEFT = [
    ("horovodrun -np 6 -H a:4,b:2 python train.py", "--nproc-per-node=4 on a, --nproc-per-node=2 on b"),
    ("horovodrun -np 9 -H a:4,b:4 python train.py", "more ranks than its hosts have slots"),
    ("horovodrun -np 4 -H localhost:2,other:2 python train.py", "a name that only it knows"),
    ("horovodrun -np 8 -H $HOSTS python train.py", "decided at run time"),
    ("horovodrun -np 8 -hostfile hosts python train.py", "named in a file"),
    ("horovodrun -np 4 --min-np 2 --host-discovery-script d.sh python train.py", "--nnodes=MIN:MAX"),
    ("horovodrun -np 4 --of-my-own python train.py", "--of-my-own is not known"),
    ("horovodrun python train.py", "does not say how many ranks"),
    ("mpirun -np 2 python a.py : -np 2 python b.py", "several programs at once"),
    ("mpirun -np 16 -npernode 8 python train.py", "--nnodes=2 --nproc-per-node=8"),
    ("mpirun -np 2 -H a,b python train.py", "how many ranks each host has"),
    ("horovodrun -np", "has no value"),
]


@pytest.mark.parametrize(("line", "reason"), LEFT)
def test_what_cannot_be_told_is_left_and_named(line: str, reason: str) -> None:
    text, result = text_of("run.sh", f"# horovod\n{line}\n")
    assert text == f"# horovod\n{line}\n"
    [finding] = result.findings
    assert (finding.rule, finding.class_, finding.line) == ("HVD651", "blocked", 2)
    assert reason in finding.message
    assert result.programs[0].status == "blocked"


def test_what_is_dropped_is_named_with_what_replaces_it() -> None:
    _, result = text_of("run.sh", "horovodrun -np 2 --fusion-threshold-mb 32 --autotune python train.py\n")
    assert "dropped: --fusion-threshold-mb, --autotune; --fusion-threshold-mb: DDP has bucket_cap_mb" in (
        result.findings[0].message
    )


FILES = {
    "Makefile": (
        "N ?= 4\ntrain:\n\t@horovodrun -np $(N) python train.py \\\n\t\t--lr 0.1  # now\n\ttime mpirun -np 2 python train.py\n",
        "N ?= 4\ntrain:\n\t@torchrun --standalone --nproc-per-node=$(N) train.py \\\n\t\t--lr 0.1  # now\n"
        "\ttime torchrun --standalone --nproc-per-node=2 train.py\n",
    ),
    "Dockerfile": (
        'FROM a\n# horovod\nRUN apt-get update && \\\n    # why\n    horovodrun --check-build\n'
        'CMD ["horovodrun", "-np", "4", "python", "train.py"]\nENTRYPOINT mpirun -np 4 python train.py\n',
        'FROM a\n# horovod\nRUN apt-get update && \\\n    # why\n'
        '    python -c "import torch.distributed as d; assert d.is_available()"\n'
        'CMD ["torchrun", "--standalone", "--nproc-per-node=4", "train.py"]\n'
        "ENTRYPOINT torchrun --standalone --nproc-per-node=4 train.py\n",
    ),
    "ci.yml": (
        "on: push\njobs:\n  a:\n    steps:\n      - run: horovodrun -np ${{ matrix.n }} python train.py  # here\n"
        "      - run: |\n          cd x\n          horovodrun -np 2 \\\n            python train.py\n"
        "      - run: >-\n          horovodrun\n          -np 2\n          python train.py\n      - name: 'kept'\n",
        "on: push\njobs:\n  a:\n    steps:\n      - run: torchrun --standalone --nproc-per-node=${{ matrix.n }} train.py  # here\n"
        "      - run: |\n          cd x\n          torchrun --standalone --nproc-per-node=2 \\\n            train.py\n"
        "      - run: >-\n          torchrun --standalone --nproc-per-node=2\n          train.py\n      - name: 'kept'\n",
    ),
    "pod.yaml": (
        "command:\n  - horovodrun   # start\n  - -np\n  - '2'\n  - python\n  - train.py\nargs: [a]\nother: ['mpirun', -np, 2, x.py] # horovod\n",
        "command:\n  - torchrun\n  - --standalone\n  - --nproc-per-node=2\n  - train.py\nargs: [a]\n"
        'other: ["torchrun", "--standalone", "--nproc-per-node=2", x.py] # horovod\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in FILES if name != "pod.yaml"])
def test_every_kind_of_file(name: str) -> None:
    before, after = FILES[name]
    text, _ = text_of(name, before)
    assert text == after
    assert text_of(name, after)[0] == after


def test_a_comment_between_words_that_go_is_not_lost() -> None:
    before, _ = FILES["pod.yaml"]
    _, result = text_of("pod.yaml", before)
    assert result.programs[0].status == "blocked"
    assert "a comment stands between" in result.findings[0].message
    without = before.replace("   # start", "")
    assert text_of("pod.yaml", without)[0] == FILES["pod.yaml"][1]


def test_line_ends_and_bytes_that_are_not_utf_8_stay() -> None:
    before = b"#!/bin/sh\r\n# caf\xe9\r\nhorovodrun -np 2 python train.py\r\necho caf\xe9\r\n"
    [file] = migrate_text("run.sh", before, SETTINGS).files
    assert file.after == before.replace(
        b"horovodrun -np 2 python train.py", b"torchrun --standalone --nproc-per-node=2 train.py"
    )


def test_prose_is_reported_and_not_edited() -> None:
    text, result = text_of("run.sh", "echo 'start with horovodrun -np 2'\nwhich horovodrun\n")
    assert text == "echo 'start with horovodrun -np 2'\nwhich horovodrun\n"
    assert [(f.class_, f.line) for f in result.findings] == [("note", 1), ("review", 2)]
    text, result = text_of("README.md", "Run it:\n\n```sh\n$ horovodrun -np 2 python train.py\n```\n")
    assert text.count("horovodrun") == 1
    [finding] = result.findings
    assert (finding.class_, finding.line) == ("review", 4)
    assert "torchrun --standalone --nproc-per-node=2 train.py" in finding.message


def test_what_does_not_parse_is_named_and_left() -> None:
    text, result = text_of("ci.yml", "a: [horovodrun\nb: }\n")
    assert text == "a: [horovodrun\nb: }\n"
    assert any("not valid YAML" in finding.message for finding in result.findings)
    [file] = migrate_text("run.sh", b"horovodrun\0\n", SETTINGS).files
    assert (file.status, file.reason) == ("failed", "line 1: contains a NUL byte")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def test_a_line_moves_with_the_program_that_it_starts(folder: Path) -> None:
    (folder / "train.py").write_text(TORCH)
    (folder / "run.sh").write_text("horovodrun -np 2 python train.py\n")
    result = migrate([Path()], SETTINGS)
    [program] = result.programs
    assert (program.status, program.files) == ("migrated", ("train.py", "run.sh"))
    assert {finding.program for finding in result.findings} == {"train.py"}


def test_a_line_stays_while_its_program_is_blocked(folder: Path) -> None:
    (folder / "train.py").write_text(BLOCKED)
    (folder / "other.py").write_text(TORCH)
    (folder / "run.sh").write_text("horovodrun -np 2 python train.py\nhorovodrun -np 2 python other.py\n")
    result = migrate([Path()], SETTINGS)
    assert [file.path for file in result.changed if file.path == "run.sh"] == []
    said = [finding for finding in result.findings if finding.path == "run.sh"]
    assert all("stays while train.py is blocked" in finding.message for finding in said)
    assert {program.name: program.status for program in result.programs} == {
        "other.py": "migrated",
        "run.sh": "clean",
        "train.py": "blocked",
    }


def test_tensorflow_has_a_launcher_of_its_own_which_is_placed(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text(TENSORFLOW)
    (folder / "run.sh").write_text("cd src\nhorovodrun -np 2 python train.py --lr 1\n")
    result = migrate([Path()], SETTINGS)
    after = {file.path: file.after.decode() for file in result.changed}
    assert after["run.sh"] == "cd src\npython launch_workers.py -np 2 train.py --lr 1\n"
    assert "src/launch_workers.py" in after
    [program] = result.programs
    assert set(program.files) == {"run.sh", "src/launch_workers.py", "src/train.py"}
    (folder / "src" / "launch_workers.py").write_text("x = 1\n")
    result = migrate([Path()], SETTINGS)
    assert [f.class_ for f in result.findings if "is another file" in f.message] == ["blocked"]
    assert {program.name: program.status for program in result.programs} == {
        "run.sh": "blocked",
        "src/train.py": "migrated",
    }


def test_mpi_programs_of_others_are_not_touched(folder: Path) -> None:
    (folder / "solve.py").write_text("from mpi4py import MPI\n")
    (folder / "lora.py").write_text("import os\n\nrank = os.environ['PMI_RANK']  # of mpirun\n")
    (folder / "run.sh").write_text("mpirun -np 2 python solve.py\nmpirun -np 2 python lora.py\n")
    result = migrate([Path()], SETTINGS)
    assert result.changed == ()
    assert {finding.path for finding in result.findings} == {"lora.py"}


def test_a_program_out_of_sight_blocks_its_line(folder: Path) -> None:
    (folder / "train.py").write_text(TORCH)
    (folder / "run.sh").write_text("horovodrun -np 2 python train.py\n")
    result = migrate([Path("run.sh")], SETTINGS)
    [finding] = result.findings
    assert (finding.class_, "not among the given paths" in finding.message) == ("blocked", True)


def test_names_that_several_files_have(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "train.py").write_text(TORCH)
    (folder / "Dockerfile").write_text('CMD ["horovodrun", "-np", "2", "python", "/app/train.py"]\n')
    (folder / "run.sh").write_text("cd b && horovodrun -np 2 python train.py\n")
    result = migrate([Path()], SETTINGS)
    assert "several files are called train.py" in next(f.message for f in result.findings if f.path == "Dockerfile")
    [program] = [program for program in result.programs if "run.sh" in program.files]
    assert program.name == "b/train.py"


def test_ignore_comments_and_selection(folder: Path) -> None:
    text = "horovodrun -np 2 python train.py  # hvd: ignore[HVD651]\n"
    assert not migrate_text("run.sh", text.encode(), SETTINGS).findings
    result = migrate_text("run.sh", text.encode(), Settings(jobs=1, ignore=("HVD651",)))
    assert result.files[0].status == "unchanged"


COMMANDS = [
    ('run(["horovodrun", "-np", str(n), "python", "train.py", *more])',
     'run(["torchrun", "--standalone", "--nproc-per-node", str(n), "train.py", *more])'),
    ('run(["mpirun", "-np", "2", "-bind-to", "none", sys.executable, "-u", "train.py"])',
     'run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"])'),
    ('run(["horovodrun", "-np", "2"] + command)',
     'run(["torchrun", "--standalone", "--nproc-per-node=2", "--no-python"] + command)'),
    ('os.system("horovodrun -np 2 python train.py > log")',
     'os.system("torchrun --standalone --nproc-per-node=2 train.py > log")'),
    ('os.system(f"horovodrun -np {n} -H localhost:{n} python {script}")',
     'os.system(f"torchrun --standalone --nproc-per-node={n} {script}")'),
    ('os.system("horovodrun -np {} python x.py".format(n))',
     'os.system("torchrun --standalone --nproc-per-node={} x.py".format(n))'),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), COMMANDS)
def test_commands_that_python_starts(before: str, after: str) -> None:
    head = "import os  # horovod\nimport sys\nfrom subprocess import run\n\n"
    text, result = text_of("start.py", head + before + "\n")
    assert text == head + after.replace("'", '"') + "\n"
    assert [f.class_ for f in result.findings] == ["review"]


REFUSED = [
    'run(["horovodrun", "-np", "2", "-H", hosts, "python", "x.py"])',
    'run(["horovodrun", "--mine", "python", "x.py"])',
    'run(["mpirun", "-np", "2", "-x", f"A={a}", "python", "horovod.py"])',
    'run(["horovodrun", "-np", "2", "--network-interface", "eth0", "python", "x.py"])',
    'os.system("horovodrun -np 2 " "python x.py")',
    'os.system("horovodrun -np 6 -H a:4,b:2 python x.py")',
]


@pytest.mark.parametrize("line", REFUSED)
def test_commands_that_are_left_block(line: str) -> None:
    head = "import os\nfrom subprocess import run\n\n"
    text, result = text_of("start.py", head + line + "\n")
    assert text == head + line + "\n"
    assert "blocked" in {f.class_ for f in result.findings}


def test_texts_that_name_a_launcher_stay() -> None:
    source = '"""Start: horovodrun -np 2 python x.py"""\nprint("use horovodrun -np 2")\nraise SystemExit("horovodrun -np 2")\n'
    text, result = text_of("x.py", source)
    assert text == source
    assert {f.class_ for f in result.findings} == {"note"}
    quiet = 'from subprocess import run\n\nrun(["mpirun", "-np", "2", "python", "solve.py"])\n'
    assert text_of("x.py", quiet) == (quiet, migrate_text("x.py", quiet.encode(), SETTINGS))
    assert not text_of("x.py", quiet)[1].findings


def test_a_file_that_starts_a_program_moves_with_it(folder: Path) -> None:
    (folder / "train.py").write_text(BLOCKED)
    (folder / "start.py").write_text('import os\n\nos.system("horovodrun -np 2 python train.py")\n')
    result = migrate([Path()], SETTINGS)
    assert [(program.files, program.status) for program in result.programs] == [(("start.py", "train.py"), "blocked")]


def test_schedulers_that_start_a_process_for_each_rank_are_named(folder: Path) -> None:
    (folder / "train.py").write_text(TORCH)
    (folder / "keras_train.py").write_text(TENSORFLOW)
    lines = ["srun -n 8 python train.py", "srun hostname", "srun python keras_train.py", "srun python other.py"]
    (folder / "job.slurm").write_text("\n".join(lines) + "\n")
    said = [finding for finding in migrate([Path()], SETTINGS).findings if finding.path == "job.slurm"]
    assert [(f.line, f.class_, f.symbol) for f in said] == [(1, "review", "srun"), (3, "review", "srun")]
    assert "srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES" in said[0].message
    assert "start launch_workers.py once on each host" in said[1].message


def test_scripts_behind_wrappers_and_in_other_folders(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name / "scripts").mkdir(parents=True)
        (folder / name / "main.py").write_text(TENSORFLOW if name == "a" else TORCH)
        (folder / name / "scripts" / "run.sh").write_text(
            "horovodrun -np 2 bash bind.sh -- python3 main.py --x\n"
            'horovodrun -np 2 python "${HERE}/../main.py"\n'
            "horovodrun -np 2 python /workspace/deep/main.py\n"
        )
    result = migrate([Path()], SETTINGS)
    after = {file.path: file.after.decode() for file in result.changed}
    start = "launch_workers.py -np 2"
    assert after["a/scripts/run.sh"].splitlines() == [
        f"python {start} bash bind.sh -- python3 main.py --x",
        f'python {start} "${{HERE}}/../main.py"',
        f"python {start} /workspace/deep/main.py",
    ]
    start = "torchrun --standalone --nproc-per-node=2"
    assert after["b/scripts/run.sh"].splitlines() == [
        f"{start} --no-python bash bind.sh -- python3 main.py --x",
        f'{start} "${{HERE}}/../main.py"',
        f"{start} /workspace/deep/main.py",
    ]


def test_scripts_without_an_extension(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "train.py").write_text(TORCH)
    (folder / "bin" / "other").write_text("#!/usr/bin/env python\n" + TORCH)
    (folder / "bin" / "start").write_text("#!/bin/bash\nhorovodrun -np 2 python train.py\n")
    (folder / "bin" / "data").write_text("#!/bin/bash\nhorovodrun -np 2 python train.py\n")
    for name in ("other", "start"):
        (folder / "bin" / name).chmod(0o755)
    assert {file.path for file in migrate([Path()], SETTINGS).changed} == {"bin/other", "bin/start", "train.py"}
    named = migrate([Path("bin/data"), Path("train.py")], SETTINGS)
    assert {file.path for file in named.changed} == {"bin/data", "train.py"}
    text, _ = text_of("start", "#!/bin/sh\nhorovodrun -np 2 python a.py\n")
    assert text == "#!/bin/sh\ntorchrun --standalone --nproc-per-node=2 a.py\n"


def test_lightning_starts_its_ranks_itself(folder: Path) -> None:
    trainer = 'import pytorch_lightning as pl\n\ntrainer = pl.Trainer(strategy="horovod", devices=1)\n'
    (folder / "train.py").write_text(trainer)
    (folder / "run.sh").write_text("horovodrun -np 2 python -u train.py --lr 1\n")
    result = migrate([Path()], SETTINGS)
    assert next(file.after for file in result.changed if file.path == "run.sh") == b"python -u train.py --lr 1\n"


def test_python_that_starts_a_program_of_lightning(folder: Path) -> None:
    trainer = 'import pytorch_lightning as pl\n\ntrainer = pl.Trainer(strategy="horovod", devices=1)\n'
    (folder / "train.py").write_text(trainer)
    (folder / "start.py").write_text('import os\n\nos.system("horovodrun -np 2 python train.py")\n')
    after = {file.path: file.after for file in migrate([Path()], SETTINGS).changed}
    assert after["start.py"] == b'import os\n\nos.system("python train.py")\n'
