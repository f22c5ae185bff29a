# ruff: noqa: E501
"""Manifests and job files beyond their fixtures: what stays as it is, what is said, and a job started for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from update_fixtures import ROOT

from migrator.config import Settings
from migrator.engine import migrate, migrate_text
from migrator.parity.ports import held_port
from migrator.result import Result
from migrator.textfiles import blocks

TORCH = (ROOT / "mpi_job" / "torch" / "before" / "job.yaml").read_text("utf-8")
CHANGED = sorted(
    path
    for path in ROOT.glob("*/*/after/*.y*ml")
    if path.read_bytes() != path.parents[1].joinpath("before", path.name).read_bytes()
)
OF_A_REPLICA = {"replicas", "restartPolicy", "template"}
OF_A_SPECIFICATION = {"runPolicy", "nprocPerNode", "pytorchReplicaSpecs", "tfReplicaSpecs"}
OF_A_TRAINER = {"image", "command", "args", "env", "numNodes", "numProcPerNode", "resourcesPerNode"}
OF_A_TRAIN_JOB = {"runtimeRef", "trainer", "runtimePatches", "suspend", "activeDeadlineSeconds"}


def migrated(text: str, name: str = "job.yaml", **settings: object) -> tuple[str, Result]:
    result = migrate_text(name, text.encode(), Settings(jobs=1, **settings))  # type: ignore[arg-type]
    return result.files[0].after.decode(), result


def messages(result: Result, class_: str) -> list[str]:
    return [f.message for f in result.findings if f.class_ == class_]


def loaded(text: str) -> list[dict]:
    return [document for document in YAML(typ="safe", pure=True).load_all(text) if isinstance(document, dict)]


@pytest.mark.parametrize("path", CHANGED, ids=lambda path: "-".join(path.parts[-4:]))
def test_no_comment_is_lost(path: Path) -> None:
    before = path.parents[1] / "before" / path.name
    old, new = (Counter(blocks.comments(text, blocks.documents_of(text))) for text in map(_text, (before, path)))
    assert not old - new


def _text(path: Path) -> str:
    return path.read_text("utf-8")


@pytest.mark.parametrize("path", [path for path in CHANGED if path.parts[-4] == "mpi_job" and path.parts[-3] != "helm"])
def test_shape_of_jobs(path: Path) -> None:
    """The fields that the operators' schemas know, with their types; replicas as many as the workers were."""
    (old, *_), (new, *_) = loaded(_text(path.parents[1] / "before" / path.name)), loaded(_text(path))
    specification, worker = new["spec"], old["spec"]["mpiReplicaSpecs"]["Worker"]
    workers = worker.get("replicas", 1)
    if new["kind"] == "TrainJob":
        assert set(specification) <= OF_A_TRAIN_JOB
        assert set(specification["trainer"]) <= OF_A_TRAINER
        assert specification["trainer"]["numNodes"] == workers
        containers = [specification["trainer"]]
    else:
        key, name = {"PyTorchJob": ("pytorchReplicaSpecs", "pytorch"), "TFJob": ("tfReplicaSpecs", "tensorflow")}[
            new["kind"]
        ]
        replicas = specification[key]
        assert set(specification) <= OF_A_SPECIFICATION
        assert isinstance(specification.get("nprocPerNode", ""), str)
        assert set(replicas) <= {"Master", "Worker"}
        assert all(set(replica) <= OF_A_REPLICA for replica in replicas.values())
        assert sum(replica.get("replicas", 1) for replica in replicas.values()) == workers
        pods = [replica["template"]["spec"] for replica in replicas.values()]
        containers = [container for pod in pods for container in pod["containers"]]
        assert {container["name"] for container in containers} == {name}
    for container in containers:
        assert not {"mpirun", "horovodrun"} & set(container["command"])
        assert all(isinstance(word, str) for word in (*container["command"], *container.get("args", ())))
        assert all(isinstance(each["value"], str) for each in container.get("env", ()))


def test_other_documents_and_line_ends_stay() -> None:
    after, _ = migrated(TORCH.replace("\n", "\r\n"))
    assert "\n" not in after.replace("\r\n", "")
    assert after.replace("\r\n", "\n") == migrated(TORCH)[0]
    other = TORCH.partition("---")[2]
    assert after.replace("\r\n", "\n").endswith(other)
    assert "kind: PyTorchJob" in after


def test_a_second_run_changes_nothing() -> None:
    for kubeflow in ("pytorchjob", "trainer"):
        source = TORCH.replace(
            '        metadata:\n          annotations:\n            sidecar.istio.io/inject: "false"\n', ""
        )
        source = source.replace("          hostNetwork: true\n", "")
        source = source.replace("            workingDir: /work\n", "")
        after, result = migrated(source, kubeflow=kubeflow)
        assert [program.status for program in result.programs] == ["migrated"]
        assert migrated(after, kubeflow=kubeflow)[0] == after


def test_items_of_a_list() -> None:
    job = TORCH.partition("---")[0].replace("\n", "\n    ").rstrip()
    text = f"apiVersion: v1\nkind: List\nitems:\n  - \n    {job}\n"
    after, _ = migrated(text)
    assert loaded(after)[0]["items"][0]["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 1


def test_a_manifest_in_a_text_is_named() -> None:
    text = "kind: ConfigMap\ndata:\n  job.yaml: |\n    kind: MPIJob\n    spec: {image: horovod}\n"
    after, result = migrated(text)
    assert after == text
    assert messages(result, "blocked") == [
        "a text holds the manifest of an MPIJob: write it as a file of its own, and migrate that"
    ]


def test_what_is_no_yaml_is_named_and_left() -> None:
    text = TORCH.replace("  slotsPerWorker: 4", "  slotsPerWorker: [4")
    after, result = migrated(text)
    assert after == text
    assert any("not valid YAML" in message for message in messages(result, "review"))


def test_prose_is_left() -> None:
    text = "# Horovod starts as an MPIJob, see kind: MPIJob.\nname: notes\n"
    after, result = migrated(text)
    assert after == text
    assert messages(result, "note") == ["the text names Horovod: it is left as it is"]


REFUSED = [
    (("    Launcher:\n", "    Leader:\n"), "it has no Launcher whose containers"),
    (("containers:\n          - name: launcher", "containers: [{name: launcher}]\n          x:\n          - name: l"), "it has no Launcher"),
    (("            - mpirun\n", "            - /launch.sh\n"), "it does not say what its launcher starts"),
    (("            - -bind-to\n", "            - --new-option\n"), "mpirun's option --new-option is not known"),
    (("            - train.py\n", "            - 'a.py'\n            - ':'\n"), "several programs at once"),
    (("            - -bind-to\n            - none\n", "            - -npernode\n            - '2'\n"), "it starts 2 ranks on each worker"),
    (("            volumeMounts:\n", "            env:\n            - {name: DATA, value: /other}\n            volumeMounts:\n"), "DATA has another value"),
    (("            volumeMounts:\n", "            workingDir: /\n            volumeMounts:\n"), "different working directories"),
    (("            volumeMounts:\n", "            env: [{name: A, value: b}]\n            volumeMounts:\n"), "the variables of a container are written in one line"),
    (("  cleanPodPolicy: Running\n", "  cleanPodPolicy: Running\n  runPolicy: {suspend: true}\n"), "runPolicy is written in one line"),
    (("registry.example/classifier:2\n            workingDir", "mxnet\n            workingDir"), "it trains with MXNet"),
    (("apiVersion: kubeflow.org/v1", "apiVersion: batch.example/v1"), "it is not Kubeflow's"),
    (("apiVersion: kubeflow.org/v1  # training operator\n", ""), "it has no apiVersion"),
    (("spec:\n  slotsPerWorker", "specification:\n  slotsPerWorker"), "the manifest is incomplete"),
    (('            - "8"  # all of them\n', '            - "8"\n            - -H\n            - one:8\n'), "it names 1 hosts, and there are 2 workers"),
    (("            - python\n", "            - python\n            - a.py\n            - :\n            - mpirun\n"), "a word of its command is no text"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_reasons(change: tuple[str, str], reason: str) -> None:
    text = "# horovod\n" + TORCH.replace("labels:", "annotations: {uses: horovod}\n  labels:").replace(*change)
    after, result = migrated(text)
    assert after == text
    (message,) = messages(result, "blocked")
    assert reason in message


VARIANTS = [
    (("  cleanPodPolicy: Running\n", "  cleanPodPolicy: Running\n  runPolicy:\n    suspend: true\n"), "  runPolicy:\n    suspend: true\n    cleanPodPolicy: Running\n  pytorchReplicaSpecs:", ""),
    (("  cleanPodPolicy: Running\n", "  runPolicy:\n    managedBy: kubeflow.org/mpi-operator\n    suspend: true\n"), "  runPolicy:\n    suspend: true\n  pytorch", "dropped: managedBy"),
    (("      replicas: 2\n", "      replicas: 2\n      restartPolicy: Never\n"), "      replicas: 1\n      restartPolicy: OnFailure\n      template", ""),
    (("      replicas: 2\n", ""), "    Master:\n      restartPolicy: OnFailure\n      template", ""),
    (("            name: worker\n", ""), "          - name: pytorch\n            image: registry", ""),
    (("            name: worker\n", "            name: worker\n            command: [/prepare.sh]\n"), "            command:\n            - torchrun\n            args:", "the workers' own command goes: [/prepare.sh]"),
    (("            name: worker\n", "            name: worker\n            args: [-De]\n            command: [sshd]\n"), "            name: pytorch\n            command:\n            - torchrun\n            args:\n            - train.py", ""),
    (("            name: worker\n", "            name: worker\n            env:\n            - name: DATA\n              value: /data\n            - name: NCCL_DEBUG\n              value: INFO\n"), "            env:\n            - name: DATA\n              value: /data\n            - name: NCCL_DEBUG\n              value: INFO\n            volumeMounts", ""),
    (("          - image: registry.example/classifier:2\n", "          - livenessProbe: {tcpSocket: {port: 22}}\n            image: registry.example/classifier:2\n"), "          - image: registry.example/classifier:2\n            name: pytorch", "dropped: livenessProbe, OMPI_MCA_btl of the launcher"),
    (("            - -x\n            - HOROVOD_FUSION_THRESHOLD=0\n", "            - -npernode\n            - '4'\n"), "            - torchrun\n", ""),
    (("            - -x\n            - HOROVOD_FUSION_THRESHOLD=0\n", "            - -H\n            - one:4,two:4\n"), "            - torchrun\n", ""),
    (("            - python\n", "            - /opt/conda/bin/python\n"), "            - /opt/conda/bin/python\n            - -m\n            - torch.distributed.run\n            args:\n            - train.py\n", ""),
    (("            - python\n            - train.py\n", "            - ./train.sh\n"), "            - torchrun\n            - --no-python\n            args:\n            - ./train.sh\n", ""),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected", "said"), VARIANTS, ids=range(len(VARIANTS)))
def test_variants(change: tuple[str, str], expected: str, said: str) -> None:
    source = TORCH.replace("labels:", "annotations: {uses: horovod}\n  labels:")
    assert change[0] in source
    if "replicas" in change[0] and not change[1]:
        source = source.replace('"8"', '"4"')
    after, result = migrated(source.replace(*change))
    (message,) = messages(result, "review") or [str(result.findings)]
    assert expected in after, f"{message}\n{after}"
    assert said in message
    assert migrated(after)[0] == after


def test_variables_of_horovod_alone_go() -> None:
    env = "            env:\n            - name: HOROVOD_TIMELINE\n              value: /tmp\n"
    source = TORCH.replace("            name: worker\n", f"            name: worker\n{env}")
    source = source.replace("            - DATA\n", "            - PATH\n").replace("NCCL_DEBUG=INFO", "LANG")
    after, result = migrated(source.replace("labels:", "annotations: {uses: horovod}\n  labels:"))
    assert "env:" not in after
    assert "HOROVOD_TIMELINE, DATA of the launcher, OMPI_MCA_btl of the launcher" in messages(result, "review")[0]


def test_workers_that_a_template_counts() -> None:
    """One less cannot be written; a TrainJob needs no such number."""
    source = TORCH.replace("labels:", "annotations: {uses: horovod}\n  labels:").replace(
        "      replicas: 2", "      replicas: {{ .n }}"
    )
    source = source.replace('            - -np\n            - "8"  # all of them\n', "").replace(
        "            workingDir: /work\n", ""
    )
    after, result = migrated(source)
    assert after == source
    assert "a template decides how many workers there are" in messages(result, "blocked")[0]
    source = source.replace(
        '        metadata:\n          annotations:\n            sidecar.istio.io/inject: "false"\n', ""
    )
    after, _ = migrated(source.replace("          hostNetwork: true\n", ""), kubeflow="trainer")
    assert "    numNodes: {{ .n }}\n    numProcPerNode: 4\n" in after


@pytest.mark.parametrize(("name", "folder"), [("mpi_job/torch", "job.yaml"), ("azure_ml/job", "job.yml")])
def test_a_program_that_is_not_given_holds_its_job_back(
    name: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / name / "before", tmp_path / "project")
    (tmp_path / "project" / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path / "project")
    result = migrate([Path(folder)], Settings(jobs=1))
    assert [message.partition(": ")[2] for message in messages(result, "blocked")] == [
        "train.py uses Horovod and is not among the given paths"
    ]
    assert not result.changed


REFUSED_BY_TRAINER = [
    (("          hostNetwork: true\n", "          hostNetwork: true\n"), "a TrainJob cannot say hostNetwork of its pods"),
    (("          hostNetwork: true\n", ""), "the workers' pods have metadata"),
    (("            name: worker\n", "            name: worker\n            tty: true\n"), "a TrainJob cannot say tty of a container"),
    (("          volumes:\n", "          - {name: other, image: busybox}\n          volumes:\n"), "a TrainJob has one container"),
    (("registry.example/classifier", "registry.example/tensorflow"), "no runtime for TensorFlow"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "reason"), REFUSED_BY_TRAINER, ids=[reason for _, reason in REFUSED_BY_TRAINER])
def test_what_a_train_job_cannot_say(change: tuple[str, str], reason: str) -> None:
    text = (
        TORCH.replace("            workingDir: /work\n", "")
        .replace("labels:", "annotations: {uses: horovod}\n  labels:")
        .replace(*change)
    )
    after, result = migrated(text, kubeflow="trainer")
    assert after == text
    (message,) = messages(result, "blocked")
    assert reason in message


PROGRAM = """\
import sys

import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(3)
inputs = torch.randn(8, 4)
targets = inputs.sum(1, keepdim=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[2]) * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for step in range(5):
    rows = slice(hvd.rank(), None, hvd.size())
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs[rows]), targets[rows])
    loss.backward()
    optimizer.step()
if hvd.rank() == 0:
    print("weights", *(value.hex() for value in model.weight.flatten().tolist()))
"""
# What Horovod 0.28.1 printed for it: horovodrun -np 2 --gloo python train.py --lr 0.02, with PyTorch 2.13 on a CPU.
WEIGHTS = "weights 0x1.6daa8a0000000p-1 0x1.6708420000000p-1 0x1.9d15780000000p+0 -0x1.0d61340000000p-2"
JOB = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: small}
spec:
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - name: launcher
            image: small
            command: [mpirun, -np, "2", -x, OMP_NUM_THREADS=1, python, train.py, --lr, "0.02"]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {name: worker, image: small}
"""


@pytest.mark.ranks
def test_a_job_trains_as_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pod's command with the variables that the training operator sets, as two agents of torchrun."""
    (tmp_path / "train.py").write_text(PROGRAM, "utf-8")
    job = JOB.replace(
        "          - {name: worker, image: small}\n", "          - name: worker\n            image: small\n"
    )
    (tmp_path / "job.yaml").write_text(job, "utf-8")
    monkeypatch.chdir(tmp_path)
    result = migrate([Path()], Settings(jobs=1))
    for file in result.changed:
        (tmp_path / file.path).write_bytes(file.after)
    (manifest,) = loaded((tmp_path / "job.yaml").read_text("utf-8"))
    with held_port() as port:
        agents = [_agent(pod, rank, port, tmp_path) for rank, pod in enumerate(_pods(manifest))]
        outputs = [agent.communicate(timeout=240) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], outputs
    assert WEIGHTS in outputs[0][0]


def _pods(manifest: dict) -> list[dict]:
    replicas = manifest["spec"]["pytorchReplicaSpecs"]
    assert [replicas[name]["replicas"] for name in ("Master", "Worker")] == [1, 1]
    assert manifest["spec"]["nprocPerNode"] == "1"
    return [replicas[name]["template"]["spec"]["containers"][0] for name in ("Master", "Worker")]


def _agent(pod: dict, rank: int, port: int, folder: Path) -> subprocess.Popen[str]:
    set_by_operator = {
        **{"PYTHONUNBUFFERED": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"},
        **{"RANK": str(rank), "PET_NODE_RANK": str(rank), "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(port)},
        **{"PET_NPROC_PER_NODE": "1", "PET_NNODES": "2"},
    }
    own = {each["name"]: each["value"] for each in pod["env"]}
    command = [*pod["command"], *pod.get("args", [])]
    assert command[0] == "torchrun"
    scripts = sysconfig.get_path("scripts")
    environment = {**os.environ, **set_by_operator, **own, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "torch.distributed.run", *command[1:]]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=environment, **pipes)  # type: ignore[call-overload,no-any-return]
