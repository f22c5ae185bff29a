"""An MPIJob as a PyTorchJob or a TFJob: edits of its text, in which the new replicas are the old workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrator.api import RefusalError, Span, TextEdit, blocks

from .container import Draft, Start, container, gone, whole
from .mpi_job_shape import DROPPED, OF_THE_RUN, Job, Replica


def replicas(job: Job, start: Start) -> Draft:
    """The edits that make the job one of its framework's own kind. Raises RefusalError where they are not clear."""
    draft = Draft()
    kind, prefix = ("TFJob", "tf") if start.is_tensorflow else ("PyTorchJob", "pytorch")
    _head(job, kind, draft)
    _fields(job, start.is_tensorflow, draft)
    replica_specs = job.entry("mpiReplicaSpecs")
    assert replica_specs is not None
    draft.edits.append(TextEdit(blocks.key_span(job.text, replica_specs), f"{prefix}ReplicaSpecs"))
    inside = list(_restart_policy(job))
    inside += container(job, start, "tensorflow" if start.is_tensorflow else "pytorch", draft)
    _place(job, start, inside, draft)
    return draft


def _head(job: Job, kind: str, draft: Draft) -> None:
    for key, value in (("apiVersion", "kubeflow.org/v1"), ("kind", kind)):
        found = blocks.entry(job.text, job.root, key)
        if found is None:
            raise RefusalError(f"it has no {key}")
        draft.edits.append(TextEdit(blocks.value_span(found.node), value))


def _fields(job: Job, is_tensorflow: bool, draft: Draft) -> None:
    """The fields of the specification beside the replicas."""
    for name in DROPPED:
        if (found := job.entry(name)) is not None:
            draft.edits.append(gone(job.text, found))
            draft.dropped.append(name)
    _slots(job, is_tensorflow, draft)
    _run_policy(job, draft)


def _slots(job: Job, is_tensorflow: bool, draft: Draft) -> None:
    found = job.entry("slotsPerWorker")
    if is_tensorflow:
        if job.slots != "1":
            raise RefusalError(
                f"a TFJob starts one process in a pod, and its workers have {job.slots} slots: write that many times "
                "as many workers, each with one GPU and its part of the CPU and memory"
            )
        if found is not None:
            draft.edits.append(gone(job.text, found))
    elif found is not None:
        draft.edits.append(TextEdit(blocks.key_span(job.text, found), "nprocPerNode"))
        draft.edits.append(TextEdit(blocks.value_span(found.node), f'"{job.slots}"'))
    else:
        _before_replicas(job, 'nprocPerNode: "1"\n', draft)


def _before_replicas(job: Job, line: str, draft: Draft) -> None:
    found = job.entry("mpiReplicaSpecs")
    assert found is not None
    indented = line.replace("\n", "\n" + " " * found.column)
    draft.edits.append(TextEdit(Span(found.span.start, found.span.start), indented))


def _run_policy(job: Job, draft: Draft) -> None:
    """What older versions have beside ``runPolicy`` goes into it; the launcher is no pod to wait for any more."""
    policy, loose = job.entry("runPolicy"), [found for name in OF_THE_RUN if (found := job.entry(name))]
    draft.edits.extend(gone(job.text, each) for each in loose)
    inside = blocks.entries(job.text, policy.node) if policy is not None else ()
    if loose and policy is not None and (blocks.is_flow(policy.node) or not inside):
        raise RefusalError("runPolicy is written in one line: write it line by line")
    lines = [blocks.moved(blocks.source(job.text, each.span), 0) for each in loose]
    if loose and inside:
        new = "".join(" " * inside[0].column + line for line in lines)
        draft.edits.append(TextEdit(Span(inside[-1].span.end, inside[-1].span.end), new))
    elif loose:
        _before_replicas(job, "runPolicy:\n" + "".join(f"  {line}" for line in lines), draft)
    _members(job, draft)
    manager = job.entry("runPolicy", "managedBy")
    if blocks.scalar(manager) == "kubeflow.org/mpi-operator" and manager is not None:
        draft.edits.append(gone(job.text, manager))
        draft.dropped.append("managedBy")


def _members(job: Job, draft: Draft) -> None:
    found = job.entry("runPolicy", "schedulingPolicy", "minAvailable")
    least = blocks.scalar(found)
    if found is not None and least.isdigit() and job.workers.isdigit() and int(least) > int(job.workers):
        draft.edits.append(TextEdit(blocks.value_span(found.node), job.workers))
        draft.notes.append(f"minAvailable {least} counted the launcher: {job.workers}")


def _restart_policy(job: Job) -> Iterator[TextEdit]:
    """Whether what is trained starts again was the launcher's to say."""
    policies = [blocks.entry(job.text, each.entry.node, "restartPolicy") for each in (job.launcher, job.worker)]
    launcher, worker = policies
    if launcher is None:
        return
    new = blocks.source(job.text, blocks.value_span(launcher.node))
    replicas = blocks.entry(job.text, job.worker.entry.node, "replicas")
    if worker is not None:
        yield TextEdit(blocks.value_span(worker.node), new)
    elif replicas is not None:
        line = " " * replicas.column + f"restartPolicy: {new}\n"
        yield TextEdit(Span(replicas.span.end, replicas.span.end), line)
    else:
        first = blocks.entries(job.text, job.worker.entry.node)[0]
        place = Span(first.span.start, first.span.start)
        yield TextEdit(place, f"restartPolicy: {new}\n" + " " * first.column)


def _place(job: Job, start: Start, inside: Sequence[TextEdit], draft: Draft) -> None:
    """The launcher gives way to Master, a copy of the workers', of which there is one less; in a TFJob it only goes."""
    launcher, worker = job.launcher.entry, job.worker.entry
    key = blocks.key_span(job.text, worker)
    if start.is_tensorflow or job.workers == "1":
        draft.edits.extend(inside)
        draft.edits.append(gone(job.text, launcher))
        draft.edits.extend([] if start.is_tensorflow else [TextEdit(key, "Master")])
        return
    if not job.workers.isdigit():
        raise RefusalError(
            "a template decides how many workers there are: write Master, with 1 replica, and Worker with one less"
        )
    master = [TextEdit(key, "Master"), _number(job, job.worker, 1), *inside]
    text = blocks.edited(job.text, worker.span, master)
    draft.edits.append(TextEdit(launcher.span, whole(text)))
    draft.edits.extend([_number(job, job.worker, int(job.workers) - 1), *inside])


def _number(job: Job, replica: Replica, count: int) -> TextEdit:
    found = blocks.entry(job.text, replica.entry.node, "replicas")
    assert found is not None
    return TextEdit(blocks.value_span(found.node), str(count))
