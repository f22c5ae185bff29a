"""An MPIJob as a TrainJob of Kubeflow Trainer 2.2 or later, with its runtime torch-distributed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from migrator.api import RefusalError, Span, TextEdit, blocks

from .container import Draft, Start, container
from .mpi_job_shape import OF_THE_RUN, Job

OF_THE_TRAINER = {"image": "image", "command": "command", "args": "args", "env": "env"}
OF_THE_POD = (
    *("serviceAccountName", "volumes", "imagePullSecrets", "securityContext", "nodeSelector", "affinity"),
    *("tolerations", "schedulingGates", "terminationGracePeriodSeconds"),
)
OF_THE_CONTAINER = ("volumeMounts", "securityContext")
WITHOUT_MEANING = ("name", "imagePullPolicy", "resources", *OF_THE_TRAINER, *OF_THE_CONTAINER)
PATCH = """runtimePatches:
  - manager: user
    trainingRuntimeSpec:
      template:
        spec:
          replicatedJobs:
            - name: node
              template:
                spec:
                  template:
                    spec:
"""
CONTAINERS = "containers:\n  - name: node\n"


def train_job(job: Job, start: Start) -> Draft:
    """The edits that make the job a TrainJob. Raises RefusalError where that cannot hold what it has."""
    if start.is_tensorflow:
        raise RefusalError("Kubeflow Trainer has no runtime for TensorFlow: --kubeflow pytorchjob writes a TFJob")
    draft = Draft()
    for key, value in (("apiVersion", "trainer.kubeflow.org/v1alpha1"), ("kind", "TrainJob")):
        found = blocks.entry(job.text, job.root, key)
        if found is None:
            raise RefusalError(f"it has no {key}")
        draft.edits.append(TextEdit(blocks.value_span(found.node), value))
    first = blocks.entries(job.text, job.spec.node)[0]
    text = "".join(_specification(job, start, first.column, draft)).lstrip(" ")
    draft.edits.append(TextEdit(Span(first.span.start, job.spec.span.end), text))
    draft.dropped.extend(_dropped(job))
    draft.notes.append("runtimeRef names the runtime torch-distributed of Kubeflow Trainer 2.2 or later")
    return draft


def _specification(job: Job, start: Start, column: int, draft: Draft) -> Iterator[str]:
    yield _indented("runtimeRef:\n  name: torch-distributed\n", column)
    for name in ("suspend", "activeDeadlineSeconds"):
        if (found := job.entry("runPolicy", name) or job.entry(name)) is not None:
            yield _put(job.text, found, column)
    text, fields = _container(job, start, draft)
    yield _indented("trainer:\n", column)
    yield from (_put(text, fields[old], column + 2, new) for old, new in OF_THE_TRAINER.items() if old in fields)
    yield _indented(f"numNodes: {job.workers}\nnumProcPerNode: {job.slots}\n", column + 2)
    if "resources" in fields:
        yield _put(text, fields["resources"], column + 2, "resourcesPerNode")
    yield from _patches(job, text, fields, column)


def _container(job: Job, start: Start, draft: Draft) -> tuple[str, Mapping[str, blocks.Entry]]:
    """The new container, as a text of its own, and its entries."""
    old = job.worker.container
    edits = list(container(job, start, "node", draft))
    text = " " * old.column + blocks.edited(job.text, old.span, edits)
    (item,) = blocks.entries(text, blocks.documents_of(text)[0])
    fields = {each.key: each for each in blocks.entries(text, item.node)}
    if unknown := [name for name in fields if name not in WITHOUT_MEANING]:
        raise RefusalError(f"a TrainJob cannot say {', '.join(unknown)} of a container: make a runtime that does")
    if job.worker.others:
        raise RefusalError("a TrainJob has one container: the others belong in a runtime of your own")
    return text, fields


def _patches(job: Job, text: str, fields: Mapping[str, blocks.Entry], column: int) -> Iterator[str]:
    """What the pods have beside the trainer: patches of the runtime."""
    pod = [each for each in blocks.entries(job.text, job.worker.pod.node) if each.key != "containers"]
    pod = [each for each in pod if each.key != "restartPolicy"]
    if unknown := [each.key for each in pod if each.key not in OF_THE_POD]:
        raise RefusalError(f"a TrainJob cannot say {', '.join(unknown)} of its pods: make a runtime that does")
    if blocks.entry(job.text, job.worker.entry.node, "template", "metadata") is not None:
        raise RefusalError("the workers' pods have metadata: put that into runtimePatches, or a runtime of your own")
    mounted = [fields[name] for name in OF_THE_CONTAINER if name in fields]
    if pod or mounted:
        yield _indented(PATCH, column)
    inner = column + 22
    yield from (_put(job.text, each, inner) for each in pod)
    if mounted:
        yield _indented(CONTAINERS, inner)
        yield from (_put(text, each, inner + 4) for each in mounted)


def _dropped(job: Job) -> Iterator[str]:
    known = (*OF_THE_RUN, "schedulingPolicy", "managedBy")
    for name in (each for each in known if each != "activeDeadlineSeconds"):
        if job.entry(name) is not None or job.entry("runPolicy", name) is not None:
            yield name
    if blocks.entry(job.text, job.worker.entry.node, "restartPolicy") is not None:
        yield "restartPolicy"


def _indented(text: str, column: int) -> str:
    return " " * column + blocks.moved(text, column)


def _put(text: str, found: blocks.Entry, column: int, key: str = "") -> str:
    """An entry at another indentation, and under another key."""
    span = blocks.key_span(text, found)
    lines = (key or blocks.source(text, span)) + text[span.end : found.span.end]
    lines = lines if lines.endswith("\n") else lines + "\n"
    return " " * column + blocks.moved(lines, column - found.column)
