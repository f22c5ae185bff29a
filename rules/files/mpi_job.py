"""HVD656 mpi-job: a Kubeflow MPIJob becomes a PyTorchJob, or a TFJob.

The launcher's pod goes: its command, without ``mpirun`` and its options, is what every pod runs, under ``torchrun``.
The first worker is the Master, so there are as many pods that train as before, with the workers' image, resources and
volumes; the operator tells torchrun of the others (training operator 1.7 or later). A program of TensorFlow becomes a
TFJob, whose operator sets TF_CONFIG. The variables that ``mpirun -x`` or ``horovodrun`` handed on are those of the
container. What belongs to MPI and ssh is dropped, and named. Comments stay; those of lines that go stand above the
replicas. ``--kubeflow trainer`` writes a TrainJob. A manifest whose shape does not tell the numbers is left, and the
finding says what to write.

Example:

```yaml
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: mnist
spec:
  slotsPerWorker: 4
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - name: launcher
            image: example/mnist
            command: [horovodrun, -np, "8", python, train.py]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: worker
            image: example/mnist
            resources:
              limits: {nvidia.com/gpu: 4}
```

Use instead:

```yaml
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: mnist
spec:
  nprocPerNode: "4"
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
          - name: pytorch
            image: example/mnist
            command: [torchrun, train.py]
            resources:
              limits: {nvidia.com/gpu: 4}
    Worker:
      replicas: 1
      template:
        spec:
          containers:
          - name: pytorch
            image: example/mnist
            command: [torchrun, train.py]
            resources:
              limits: {nvidia.com/gpu: 4}
```
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from migrator.api import Document, RefusalError, Script, Span, Surroundings, TextEdit, TextFinding, blocks, file_rule

from ..launch.line import WORKERS
from .container import Start
from .launch_line import launcher_for
from .mpi_job_command import Launch, check_ranks, find_launch, offset_of, text_of_command, variables
from .mpi_job_shape import Job, counting, leftovers, read_job
from .replicas import replicas
from .train_job import train_job

OF_TENSORFLOW = ("tensorflow", "keras", "tf_cnn", "tf2", "tf1")
OF_TORCH = ("torch", "lightning")


@file_rule("HVD656", "mpi-job")
def mpi_job(document: Document, surroundings: Surroundings) -> Iterator[TextFinding]:
    for root in document.parts.documents:
        trials = {
            id(trial.node) for node in blocks.walk(root) if (trial := blocks.entry(document.text, node, "trialSpec"))
        }
        for node in blocks.walk(root):
            kind = blocks.entry(document.text, node, "kind") if blocks.is_mapping(node) else None
            if kind is not None and blocks.scalar(kind) == "MPIJob":
                place = blocks.value_span(kind.node)
                yield from _found(document, node, place, surroundings, is_trial=id(node) in trials)
            elif blocks.is_scalar(node) and "kind: MPIJob" in node.value and "horovod" in node.value.lower():
                message = "a text holds the manifest of an MPIJob: write it as a file of its own, and migrate that"
                yield TextFinding(blocks.value_span(node), "blocked", message, symbol="MPIJob")


def _found(
    document: Document, root: blocks.Node, place: Span, surroundings: Surroundings, *, is_trial: bool
) -> Iterator[TextFinding]:
    span = blocks.value_span(root)
    is_ours = "horovod" in document.text[span.start : span.end].lower()
    try:
        if is_trial:
            raise RefusalError(
                "an Experiment of Katib waits for its launcher: write primaryContainerName, and primaryPodLabels with "
                "training.kubeflow.org/job-role: master, for the new job"
            )
        job = read_job(document.text, root)
        launch = find_launch(job, document.parts.held)
        script = _script(document, launch, surroundings)
        if is_ours or (script is not None and script.uses_horovod):
            yield _moved(document, job, place, launch, script, surroundings)
        elif launch is not None and launch.line.started.interpreter is not None:
            message = "an MPIJob starts Python by MPI, and nothing says that its program uses Horovod: it is left"
            yield TextFinding(place, "note", message, symbol="MPIJob")
    except (RefusalError, ValueError) as refusal:
        if is_ours:
            message = f"the MPIJob is left as it is: {refusal}"
            yield TextFinding(place, "blocked", message, symbol="MPIJob")


def _script(document: Document, launch: Launch | None, surroundings: Surroundings) -> Script | None:
    if launch is None or launch.line.started.script is None:
        return None
    started = launch.line.started
    return surroundings.script(document.file, str(started.script), is_module=started.is_module)


def _moved(
    document: Document,
    job: Job,
    place: Span,
    launch: Launch | None,
    script: Script | None,
    surroundings: Surroundings,
) -> TextFinding:
    if launch is None:
        raise RefusalError(
            "it does not say what its launcher starts: write that, with torchrun, as the command of Master and Worker"
        )
    check_ranks(job, launch.line)
    if script is not None and script.program is None and script.uses_horovod:
        raise RefusalError(f"{script.file.name} uses Horovod and is not among the given paths")
    launcher, assumed = _launcher(job, script, surroundings)
    command, translation = text_of_command(job, launch, launcher)
    given, left = variables(job, launch, translation)
    start = Start(command, tuple(given), launcher == WORKERS, offset_of(job, launch))
    is_trainer = surroundings.settings.kubeflow == "trainer"
    draft = train_job(job, start) if is_trainer else replicas(job, start)
    kind = "TrainJob" if is_trainer else "TFJob" if start.is_tensorflow else "PyTorchJob"
    names = ", ".join(dict.fromkeys([*draft.dropped, *(f"{name} of the launcher" for name in left)]))
    notes = [
        f"MPIJob → {kind}: {_shape(job, start, is_trainer)}",
        *translation.notes,
        *([f"of the manifest is dropped: {names}"] if names else []),
        *_of_the_launcher(job, launch),
        *draft.notes,
        *assumed,
        "the image must have the migrated program and what it needs",
    ]
    edits = tuple(_with_comments(document, job, draft.edits, is_trainer))
    programs = (script.program,) if script is not None and script.program is not None else ()
    return TextFinding(place, "review", "; ".join(notes), edits, programs, symbol="MPIJob")


def _shape(job: Job, start: Start, is_trainer: bool) -> str:
    if start.is_tensorflow:
        return f"{job.workers} workers, which read TF_CONFIG"
    if is_trainer:
        return f"{job.workers} nodes with {job.slots} {'rank' if job.slots == '1' else 'ranks'} on each"
    rest = int(job.workers) - 1
    others = f", with {rest} more" if rest else ""
    ranks = "1 rank" if job.slots == "1" else f"{job.slots} ranks"
    return f"the first worker is Master{others}, and runs torchrun with {ranks}"


def _of_the_launcher(job: Job, launch: Launch) -> Iterator[str]:
    if launch.command is not None:
        yield "the rest of the launcher's script runs in every pod now"
    names = list(leftovers(job))
    if "initContainers" in names:
        raise RefusalError(
            "only its launcher has init containers: give them to the workers, or run them before the job"
        )
    if names:
        yield f"the launcher alone had, and they go with it: {', '.join(names)}"
    if keys := ", ".join(counting(job)):
        yield f"{keys} of the pods counts the launcher too: lower it by one"


def _launcher(job: Job, script: Script | None, surroundings: Surroundings) -> tuple[str, list[str]]:
    """What the new pods start the program by, and what that assumes."""
    if script is not None:
        launcher = launcher_for(script, surroundings)
        if launcher == "python":
            raise RefusalError(f"{script.file.name} starts its ranks itself: start it alone, as a Job")
        named = [] if script.uses_horovod else [f"{script.file.name} does not name Horovod: it is taken to be migrated"]
        return launcher, named
    text = job.source.lower()
    if "mxnet" in text and not any(word in text for word in (*OF_TENSORFLOW, *OF_TORCH)):
        raise RefusalError("it trains with MXNet, which has no counterpart")
    is_tensorflow = any(word in text for word in OF_TENSORFLOW) and not any(word in text for word in OF_TORCH)
    known = any(word in text for word in (*OF_TENSORFLOW, *OF_TORCH))
    launcher = WORKERS if is_tensorflow else "torchrun" if known else launcher_for(None, surroundings)
    framework = "TensorFlow" if launcher == WORKERS else "PyTorch"
    why = "by the names in it" if known else "for want of a better sign"
    return launcher, [f"its program is not in sight: it is taken to be migrated, and one of {framework}, {why}"]


def _with_comments(document: Document, job: Job, edits: list[TextEdit], is_whole: bool) -> Iterator[TextEdit]:
    """The edits, with the comments that they would lose above the first replica; raises if the result is no YAML."""
    text = document.text
    after = "".join(blocks.edited(text, Span(0, len(text)), edits))
    try:
        roots = blocks.documents_of(after)
    except ValueError as error:
        raise RefusalError(f"the result cannot be read: {error}") from error
    missing = Counter(blocks.comments(text, document.parts.documents)) - Counter(blocks.comments(after, roots))
    found = _place(job, is_whole)
    place = found.span.start - found.column
    lines = "".join(f"{' ' * found.column}{comment}\n" for comment in missing.elements())
    ends = "\r\n" if "\r\n" in text else "\n"
    for edit in [*([TextEdit(Span(place, place), lines)] if lines else []), *edits]:
        yield TextEdit(edit.span, edit.text.replace("\r\n", "\n").replace("\n", ends))


def _place(job: Job, is_whole: bool) -> blocks.Entry:
    """The first of the replicas, or of the whole specification where that is written anew."""
    found = job.spec if is_whole else job.entry("mpiReplicaSpecs")
    assert found is not None
    return blocks.entries(job.text, found.node)[0]
