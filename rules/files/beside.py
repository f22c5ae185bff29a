"""What a file that installs Horovod has beside it: other commands, extras, old versions and MPI. All of it is named."""

from __future__ import annotations

from collections.abc import Iterator

from migrator.api import Dependency, Span, TextFinding, allows_from, distribution_of, extras_of

from .installation import Installation
from .installs import names_horovod

FRAMEWORKS = {
    "pytorch": ("torch", "pytorch"),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
    "tensorflow-gpu": ("tensorflow-gpu", "tensorflow"),
    "tensorflow-cpu": ("tensorflow-cpu", "tensorflow"),
    "keras": ("keras", "tensorflow", "tensorflow-gpu"),
    "spark": ("pyspark",),
    "ray": ("ray",),
    "all-frameworks": ("torch", "pytorch", "tensorflow", "tensorflow-gpu", "mxnet"),
}
LOWEST = {"torch": "torch>=2.1", "pytorch": "torch>=2.1"}
MPI = ("mpi4py", "openmpi", "libopenmpi", "mpich", "libmpich", "mvapich2", "intel-mpi", "impi-rt")
OF_MPI = "stays: the migrated code does not need MPI; take it out if nothing else does"
OF_COMMANDS = "the command has to do with Horovod, and is left as it is: take it out where nothing else needs it"
OF_IMAGES = "the image is one with Horovod: build on one of PyTorch or TensorFlow"


def named(installation: Installation) -> Iterator[TextFinding]:
    """Commands, extras and images that have to do with Horovod otherwise."""
    handled = {id(each.command) for each in installation.installs if each.going}
    handled |= {id(command) for command in installation.tests}
    for command in installation.document.parts.commands:
        if id(command) not in handled and names_horovod(command):
            yield said(command.span, OF_COMMANDS)
    yield from _extras(installation)
    yield from _images(installation)


def beside(installation: Installation) -> Iterator[TextFinding]:
    """Versions that the migrated code cannot run with, and MPI."""
    oldest = _oldest(installation)
    asked = [(item.name, item.text, item.span) for item in _items(installation)]
    asked += [(distribution_of(w.value), w.value, w.span) for each in installation.installs for w in each.asked]
    for name, text, span in asked:
        lowest = oldest.get(name, "")
        if lowest and not allows_from(text, lowest.partition(">=")[2]):
            yield said(span, f"{shown(text)} is too old for the migrated code, which needs {lowest}")
        elif name.startswith(MPI):
            yield said(span, f"{name} {OF_MPI}")
    seen = {span.start for _, _, span in asked}
    for command in installation.document.parts.commands:
        if "install" in (word.value for word in command.words):
            found = [word for word in command.words if word.value.startswith(MPI) and word.span.start not in seen]
            yield from (said(word.span, f"{word.value} {OF_MPI}") for word in found)


def along(installation: Installation, requirement: str) -> Iterator[str]:
    """What Horovod's extras brought along that nothing else asks for."""
    for extra in extras_of(requirement):
        names = FRAMEWORKS.get(extra, ())
        if names and installation.present.isdisjoint(names):
            yield f"its extra {extra} was all that asked for {names[0]} here: add it unless something else brings it"


def said(span: Span, message: str) -> TextFinding:
    """What a person should look at."""
    return TextFinding(span, "review", message, symbol="horovod")


def shown(text: str) -> str:
    """A requirement on one line."""
    return " ".join(text.split())


def _items(installation: Installation) -> Iterator[Dependency]:
    return (item for each in installation.document.parts.dependencies for item in each.items)


def _oldest(installation: Installation) -> dict[str, str]:
    """The oldest versions that the programs run with, by the name of what they need."""
    programs = installation.served
    bounds = {distribution_of(need): need for program in programs for need in program.requirements if ">=" in need}
    is_torch = not programs or "torch" in bounds or any("torchrun" in program.launchers for program in programs)
    return {**bounds, **(LOWEST if is_torch else {})}


def _extras(installation: Installation) -> Iterator[TextFinding]:
    """Extras of something else that are called after Horovod."""
    asked = [(item.text, item.span) for item in _items(installation)]
    asked += [(word.value, word.span) for each in installation.installs for word in each.command.words]
    for text, span in asked:
        extras = [extra for extra in extras_of(text) if "horovod" in extra or "hvd" in extra]
        if extras and distribution_of(text) not in installation.runtimes:
            message = f"{shown(text)} asks for the extra {extras[0]}, which brings nothing once Horovod is gone"
            yield said(span, message)


def _images(installation: Installation) -> Iterator[TextFinding]:
    document, position = installation.document, 0
    for line in document.text.splitlines(keepends=True) if document.kind == "dockerfile" else ():
        if line.upper().startswith("FROM ") and "horovod" in line.lower():
            yield said(Span(position, position + len(line.rstrip())), OF_IMAGES)
        position += len(line)
