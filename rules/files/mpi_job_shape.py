"""The shape of a Kubeflow MPIJob, in all its versions, as far as it can be moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from migrator.api import RefusalError, blocks

DROPPED = (
    *("mainContainer", "sshAuthMountPath", "mpiImplementation", "launcherCreationPolicy", "waitForWorkers"),
    *("runLauncherAsWorker", "mpiDistribution"),
)
OF_THE_RUN = ("cleanPodPolicy", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
KNOWN = (*DROPPED, *OF_THE_RUN, "slotsPerWorker", "mpiReplicaSpecs", "runPolicy")
ONE_MASTER = "Master with 1 replica, and Worker with one less than now"


@dataclass(frozen=True, eq=False)
class Replica:
    """Launcher or Worker: its entry, the specification of its pods, and their container that counts."""

    entry: blocks.Entry
    pod: blocks.Entry
    container: blocks.Entry
    others: tuple[blocks.Entry, ...]


@dataclass(frozen=True, eq=False)
class Job:
    """An MPIJob; ``slots`` and ``workers`` are the numbers as they are written, which a template may decide."""

    text: str
    root: blocks.Node
    spec: blocks.Entry
    launcher: Replica
    worker: Replica
    slots: str
    workers: str

    def entry(self, *keys: str) -> blocks.Entry | None:
        """An entry of the specification."""
        return blocks.entry(self.text, self.spec.node, *keys)

    def within(self, replica: Replica, key: str) -> blocks.Entry | None:
        """An entry of a replica's container."""
        return blocks.entry(self.text, replica.container.node, key)

    @property
    def source(self) -> str:
        """How it is written."""
        span = blocks.value_span(self.root)
        return self.text[span.start : span.end]


def read_job(text: str, root: blocks.Node) -> Job:
    """An MPIJob. Raises RefusalError where its shape does not tell what to write."""
    spec = blocks.entry(text, root, "spec")
    version = blocks.scalar(blocks.entry(text, root, "apiVersion"))
    if version and not version.startswith("kubeflow.org/"):
        raise RefusalError(f"it is not Kubeflow's, but of {version}")
    if spec is None or blocks.is_flow(root):
        raise RefusalError("the manifest is incomplete, or written in one line")
    _check(text, spec)
    launcher, worker = (_replica(text, spec.node, name) for name in ("Launcher", "Worker"))
    slots, workers = (_number(text, spec.node, *keys) for keys in (("slotsPerWorker",), REPLICAS))
    return Job(text, root, spec, launcher, worker, slots, workers)


REPLICAS = ("mpiReplicaSpecs", "Worker", "replicas")


def _check(text: str, spec: blocks.Entry) -> None:
    names = [each.key for each in blocks.entries(text, spec.node)]
    if "mpiReplicaSpecs" not in names:
        raise RefusalError(
            "it has one template for launcher and workers, as in v1alpha1: write pytorchReplicaSpecs, with that "
            "template in Master (1 replica) and Worker (the others), nprocPerNode, and torchrun as the command"
        )
    if unknown := [name for name in names if name not in KNOWN]:
        raise RefusalError(f"no counterpart of {', '.join(unknown)} is known")
    if blocks.is_shared(spec.node):
        raise RefusalError("anchors, aliases or merges share parts of it: write them out first")
    if _lines_of_templates(text[spec.span.start : spec.span.end]):
        raise RefusalError(f"a template decides which lines it has: write {ONE_MASTER}, by hand")
    if blocks.scalar(blocks.entry(text, spec.node, "runLauncherAsWorker")).lower() == "true":
        raise RefusalError("the launcher trains too: Master takes its place, with as many slots, and Worker stays")


def _lines_of_templates(source: str) -> bool:
    """Whether a line is nothing but a template, which may stand for any number of lines."""
    return any(line.strip().startswith(("{{", "{%")) for line in source.splitlines())


def _replica(text: str, spec: blocks.Node, name: str) -> Replica:
    path = ("mpiReplicaSpecs", name, "template", "spec", "containers")
    found = [blocks.entry(text, spec, *path[:depth]) for depth in (2, 3, 4, 5)]
    replica, _, pod, listed = found
    containers = blocks.entries(text, listed.node) if listed is not None else ()
    if replica is None or pod is None or not containers or any(each and blocks.is_flow(each.node) for each in found):
        raise RefusalError(f"it has no {name} whose containers are written line by line: write the replicas by hand")
    main = blocks.scalar(blocks.entry(text, spec, "mainContainer"))
    named = [each for each in containers if blocks.scalar(blocks.entry(text, each.node, "name")) == main]
    counts = named[0] if named else containers[0]
    if not blocks.entries(text, counts.node) or blocks.is_flow(counts.node):
        raise RefusalError(f"the container of {name} is written in one line: write the replicas by hand")
    return Replica(replica, pod, counts, tuple(each for each in containers if each is not counts))


def _number(text: str, spec: blocks.Node, *keys: str) -> str:
    found = blocks.entry(text, spec, *keys)
    if found is None:
        return "1"
    span = blocks.value_span(found.node)
    return text[span.start : span.end].strip("\"'")


def leftovers(job: Job) -> Iterator[str]:
    """What the launcher's pod has and the workers' have not, and so goes with it: by name."""
    launcher, worker = job.launcher, job.worker
    mine, theirs = ({each.key: each for each in blocks.entries(job.text, r.pod.node)} for r in (launcher, worker))
    said = [key for key in mine if key != "containers" and _values(mine[key].node)]
    yield from (key for key in said if _differ(mine[key], theirs.get(key)))
    metadata = [blocks.entry(job.text, each.entry.node, "template", "metadata") for each in (launcher, worker)]
    if metadata[0] is not None and not _is_part(*(_values(each.node) if each else {} for each in metadata)):
        yield "metadata of its pod"
    for key in ("volumeMounts", "image", "envFrom", "securityContext"):
        if (found := job.within(launcher, key)) is not None and _differ(found, job.within(worker, key)):
            yield f"{key} of its container"
    if launcher.others:
        yield "its other containers"


def _differ(one: blocks.Entry | None, other: blocks.Entry | None) -> bool:
    return other is None or one is None or _values(one.node) != _values(other.node)


def _is_part(one: object, other: object) -> bool:
    """Whether all that ``one`` says is said by ``other``."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(key in other and _is_part(value, other[key]) for key, value in one.items())
    return one == other


def _values(node: blocks.Node) -> object:
    if blocks.is_mapping(node):
        return {key.value: _values(value) for key, value in node.value}
    return [_values(item) for item in node.value] if blocks.is_sequence(node) else node.value


def counting(job: Job) -> Iterator[str]:
    """Labels and annotations of the workers' pods that count those of the job, the launcher among them."""
    metadata = blocks.entry(job.text, job.worker.entry.node, "template", "metadata")
    for node in blocks.walk(metadata.node) if metadata is not None and job.workers.isdigit() else ():
        for each in blocks.entries(job.text, node) if blocks.is_mapping(node) else ():
            if "min" in each.key.lower() and blocks.scalar(each) == str(int(job.workers) + 1):
                yield each.key
