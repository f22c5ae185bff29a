"""What a file that submits a job says of the program that the job trains."""

from __future__ import annotations

from collections.abc import Iterator

from migrator.api import Context, Module, RefusalError, Surroundings, commands_in, cst

from ..launch.line import is_python
from ..tensorflow.names import is_tensorflow
from ..values import symbol_of

OF_TENSORFLOW = ("tensorflow", "keras")
OF_TORCH = ("torch", "lightning", "huggingface")


def framework_in(text: str) -> str:
    """The framework that a text names, ``torch`` or ``tensorflow``; nothing where it names none, or both."""
    low = text.lower()
    named = [any(word in low for word in words) for words in (OF_TORCH, OF_TENSORFLOW)]
    return "" if named[0] == named[1] else "torch" if named[0] else "tensorflow"


def is_known(module: Module, context: Context) -> bool:
    """Whether the job's program uses Horovod, as far as the files that were read tell."""
    return bool(context.sites) or "horovod" in module.text.lower()


def framework(module: Module, context: Context, hint: str = "") -> tuple[str, str]:
    """The framework of a program that code submits, and what was assumed. Raises RefusalError where nothing tells."""
    if context.sites:
        return ("tensorflow" if is_tensorflow(context) else "torch"), ""
    found = hint or framework_in(module.text)
    if not found:
        raise RefusalError("whether the job trains with PyTorch or TensorFlow cannot be told: write its distribution")
    name = "TensorFlow" if found == "tensorflow" else "PyTorch"
    return found, f"; its program is not in sight: it is taken to be migrated, and one of {name}"


def scripts_of(command: str) -> Iterator[str]:
    """The scripts that a command of a job gives to Python."""
    for found in commands_in(command):
        words = list(found.words)
        while words and not is_python(words[0]):
            words.pop(0)
        yield from (word.value for word in words[1:] if word.value.endswith(".py"))


def references(module: Module, symbols: frozenset[str]) -> Iterator[tuple[cst.BaseExpression, str]]:
    """Every place that names one of ``symbols``, with its symbol."""
    bound = [b for found in module.index.scope.bindings.values() for b in found if b.symbol in symbols]
    for name in dict.fromkeys(binding.name for binding in bound):
        for reference in module.index.references[name]:
            if (symbol := symbol_of(reference.node, module)) in symbols:
                yield reference.node, symbol
    for short in dict.fromkeys(symbol.rpartition(".")[2] for symbol in symbols):
        for attribute in module.index.attributes[short]:
            if (symbol := symbol_of(attribute, module)) in symbols:
                yield attribute, symbol


def imports(module: Module, root: str) -> bool:
    """Whether a module imports something of the package ``root``."""
    bound = (b.symbol or "" for found in module.index.scope.bindings.values() for b in found)
    return any(symbol.partition(".")[0] == root or symbol.startswith(f"{root}.") for symbol in bound)


def nature(text: str, surroundings: Surroundings, launcher: str | None) -> tuple[str, str]:
    """The framework of a job that a file describes; ``launcher`` is what starts its script, where that is in sight."""
    if launcher is not None:
        return ("tensorflow" if launcher == "launch_workers.py" else "torch"), ""
    known = {each for program in surroundings.programs for each in program.launchers}
    found = framework_in(text) or ("tensorflow" if known == {"launch_workers.py"} else "torch")
    name = "TensorFlow" if found == "tensorflow" else "PyTorch"
    return found, f"; its program is not in sight: it is taken to be migrated, and one of {name}"
