"""HVD657 azure-ml: jobs of Azure Machine Learning that ask for MPI ask for PyTorch or TensorFlow.

Azure ML starts the processes of each node itself and gives them what torchrun would: RANK, LOCAL_RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT, or TF_CONFIG. So the command stays, and the distribution names the framework: in job files
and pipelines, in ``MpiDistribution`` of the Python SDK 2 and ``MpiConfiguration`` of SDK 1, which counts all processes,
not those of a node. TensorFlow gets one worker on a node: with more processes the job is left. Which framework it is,
is told from the program that the job starts, else from the names in the file, and then the finding says so. Jobs whose
program does not use Horovod are not touched.

Example:

```yaml
command: python train.py
distribution:
  type: mpi
  process_count_per_instance: 4
```

Use instead:

```yaml
command: python train.py
distribution:
  type: pytorch
  process_count_per_instance: 4
```
"""

from __future__ import annotations

from collections.abc import Iterator

from migrator.api import (
    Document,
    RefusalError,
    Script,
    Surroundings,
    TextEdit,
    TextFinding,
    blocks,
    file_rule,
)

from .launch_line import launcher_for
from .submission import nature, scripts_of

ONE_WORKER = "Azure ML starts one worker of TensorFlow on a node: ask for as many nodes as there are processes"
NOT_SET = "Azure ML sets neither LOCAL_WORLD_SIZE nor GROUP_RANK: a program that asks for them is told 1 and 0"


@file_rule("HVD657", "azure-ml")
def azure_ml(document: Document, surroundings: Surroundings) -> Iterator[TextFinding]:
    for root in document.parts.documents:
        for node in blocks.walk(root):
            kind = blocks.entry(document.text, node, "distribution", "type")
            if blocks.scalar(kind).lower() == "mpi" and _is_job(document.text, node):
                yield from _found(document, node, surroundings)


def _is_job(text: str, node: blocks.Node) -> bool:
    names = {each.key for each in blocks.entries(text, node)}
    return bool(names & {"command", "component", "code", "environment", "resources", "compute"})


def _found(document: Document, node: blocks.Node, surroundings: Surroundings) -> Iterator[TextFinding]:
    kind = blocks.entry(document.text, node, "distribution", "type")
    assert kind is not None
    place = blocks.value_span(kind.node)
    try:
        script = _script(document, node, surroundings)
        if script.uses_horovod if script is not None else "horovod" in document.text.lower():
            message, edits = _moved(document, node, script, surroundings)
            programs = (script.program,) if script is not None and script.program is not None else ()
            yield TextFinding(place, "review", message, edits, programs, symbol="mpi")
        elif script is None:
            message = "the job asks for MPI, and nothing says that its program uses Horovod: it is left"
            yield TextFinding(place, "note", message, symbol="mpi")
    except (RefusalError, ValueError) as refusal:
        yield TextFinding(place, "blocked", f"the job is left as it is: {refusal}", symbol="mpi")


def _script(document: Document, node: blocks.Node, surroundings: Surroundings) -> Script | None:
    """The script that the job's command starts, in the folder that ``code`` names."""
    command = blocks.scalar(blocks.entry(document.text, node, "command"))
    code = blocks.scalar(blocks.entry(document.text, node, "code"))
    for name in scripts_of(command):
        found = surroundings.script(document.file, name, folders=[code] if code and "${{" not in code else [])
        if found is not None:
            if found.program is None and found.uses_horovod:
                raise RefusalError(f"{found.file.name} uses Horovod and is not among the given paths")
            return found
    return None


def _moved(
    document: Document, node: blocks.Node, script: Script | None, surroundings: Surroundings
) -> tuple[str, tuple[TextEdit, ...]]:
    text = document.text
    span = blocks.value_span(node)
    launcher = launcher_for(script, surroundings) if script is not None else None
    found, assumed = nature(text[span.start : span.end], surroundings, launcher)
    distribution = blocks.entry(text, node, "distribution")
    kind = blocks.entry(text, node, "distribution", "type")
    assert distribution is not None
    assert kind is not None
    if blocks.is_shared(distribution.node):
        raise RefusalError("anchors or aliases share its distribution: write it out first")
    edits = [TextEdit(blocks.value_span(kind.node), "pytorch" if found == "torch" else "tensorflow")]
    edits += _workers(text, node) if found == "tensorflow" else []
    reads = "RANK and the like" if found == "torch" else "TF_CONFIG"
    message = f"type: mpi → type: {edits[0].text}: Azure ML starts the processes and sets {reads}{assumed}"
    asks = script is not None and _asks(script, surroundings)
    return message + (f"; {NOT_SET}" if asks and found == "torch" else ""), tuple(edits)


def _asks(script: Script, surroundings: Surroundings) -> bool:
    """Whether a program asks for what Azure ML does not set."""
    files = script.program.files if script.program is not None else (script.file,)
    texts = (surroundings.read(file) or b"" for file in files)
    return any(word in text for text in texts for word in (b"local_size", b"cross_rank", b"cross_size"))


def _workers(text: str, node: blocks.Node) -> list[TextEdit]:
    """``worker_count`` in the place of the number of processes, which must be one to a node."""
    count = blocks.entry(text, node, "distribution", "process_count_per_instance")
    if count is None:
        return []
    nodes = blocks.entry(text, node, "resources", "instance_count") or blocks.entry(text, node, "instance_count")
    each, instances = blocks.scalar(count), blocks.scalar(nodes) or "1"
    if each != "1":
        total = f", {int(each) * int(instances)}" if each.isdigit() and instances.isdigit() else ""
        raise RefusalError(ONE_WORKER + total)
    number = blocks.source(text, blocks.value_span(nodes.node)) if nodes is not None else "1"
    return [
        TextEdit(blocks.key_span(text, count), "worker_count"),
        TextEdit(blocks.value_span(count.node), number),
    ]
