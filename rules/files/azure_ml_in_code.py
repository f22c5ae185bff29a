"""Where code of the Python SDK of Azure ML asks for MPI, and what it asks for now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from migrator.api import (
    Context,
    Edit,
    Finding,
    Module,
    RefusalError,
    Replace,
    Site,
    Template,
    cst,
    dotted_name,
    expression,
    planner,
    rule,
)

from .azure_ml import ONE_WORKER
from .submission import framework, imports, is_known, references

V1 = frozenset({"azureml.core.runconfig.MpiConfiguration", "azureml.core.MpiConfiguration"})
V2 = frozenset({"azure.ai.ml.MpiDistribution", "azure.ai.ml.entities.MpiDistribution"})
NEW = {
    ("MpiConfiguration", "torch"): "PyTorchConfiguration",
    ("MpiConfiguration", "tensorflow"): "TensorflowConfiguration",
    ("MpiDistribution", "torch"): "PyTorchDistribution",
    ("MpiDistribution", "tensorflow"): "TensorFlowDistribution",
}
USED = "azure.mpi.{}"
LISTED = USED.format("dictionary")


@planner
def plan_azure_ml(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find where the Python SDK is asked for MPI."""
    return (), [site for module in context.modules for site in _sites(module)]


def _sites(module: Module) -> Iterator[Site]:
    here = module.index.scope
    for node, symbol in references(module, V1 | V2):
        holder = module.index.parent(node)
        call = holder if isinstance(holder, cst.Call) and holder.func is node else None
        yield Site(USED.format(symbol.rpartition(".")[2]), node, call, module, here, here)
    for string in module.index.strings if imports(module, "azure") else ():
        if string.raw_value.lower() == "mpi" and _is_type(string, module):
            yield Site(LISTED, string, None, module, here, here)


def _is_type(string: cst.SimpleString, module: Module) -> bool:
    """Whether a string is the ``type`` in a dictionary, or all that is given as a ``distribution``."""
    holder = module.index.parent(string)
    if isinstance(holder, cst.Arg):
        return holder.keyword is not None and holder.keyword.value == "distribution"
    key = holder.key if isinstance(holder, cst.DictElement) else None
    return isinstance(key, cst.SimpleString) and key.raw_value == "type"


@rule("HVD657", "azure-ml", symbols=[LISTED])
def listed(site: Site, context: Context) -> Finding | tuple[Finding, ...]:
    assert isinstance(site.node, cst.SimpleString)
    if not is_known(site.module, context):
        return ()
    found, assumed = framework(site.module, context)
    if found == "tensorflow":
        raise RefusalError(f"{ONE_WORKER}; write TensorFlowDistribution()")
    new = f"{site.node.quote}pytorch{site.node.quote}"
    message = f"{site.node.value} → {new}: Azure ML starts the processes, and the script reads what it sets{assumed}"
    return site.found("review", message, [Replace(site.node, Template(new, is_final=True))])


@rule("HVD657", "azure-ml", symbols=[USED.format("MpiConfiguration"), USED.format("MpiDistribution")])
def used(site: Site, context: Context) -> Finding:
    old = site.short
    if not is_known(site.module, context):
        message = f"{old} starts a script by MPI: where that used Horovod, {NEW[old, 'torch']} starts it now"
        return site.found("note", message)
    if site.call is None:
        raise RefusalError(f"{old} is passed on as a value: write {NEW[old, 'torch']} there")
    holder = site.module.index.parent(site.call)
    keyword = holder.keyword if isinstance(holder, cst.Arg) else None
    if keyword is not None and keyword.value == "distributed_training":
        raise RefusalError("an Estimator of SDK 1 has no such configuration: use ScriptRunConfig with one")
    _check_later(site)
    found, assumed = framework(site.module, context)
    new = NEW[old, found]
    head = site.module.source(site.node)
    head = ".".join([*head.split(".")[:-1], new]) if "." in head or head == old else head
    message = f"{old} → {new}: Azure ML starts the processes, and the script reads what it sets{assumed}"
    edits = list(_configuration(site, head, found) if old == "MpiConfiguration" else _distribution(site, head, found))
    return site.found("review", message, [*edits, *_imported(site, new)])


def _imported(site: Site, new: str) -> Iterator[Edit]:
    """The import of the old name, changed with the first of its uses."""
    name = site.node.value if isinstance(site.node, cst.Name) else ""
    if not isinstance(name, str) or not name or site.module.index.references[name][0].node is not site.node:
        return
    for binding in site.module.index.scope.bindings.get(name, ()):
        if isinstance(binding.node, cst.ImportAlias):
            alias = f" as {name}" if binding.node.asname is not None else ""
            yield Replace(binding.node, Template(new + alias))


def _check_later(site: Site) -> None:
    """Raise RefusalError where the numbers are set after the object is made."""
    target = site.assigned_to
    names = ("process_count_per_node", "node_count", "process_count_per_instance")
    for name in names if isinstance(target, cst.Name) else ():
        for attribute in site.module.index.attributes[name]:
            if dotted_name(attribute.value) == dotted_name(target):
                raise RefusalError(f"{name} is set later: give it to the constructor")


def _configuration(site: Site, head: str, found: str) -> Iterator[Edit]:
    """SDK 1: the processes of all nodes together."""
    given = site.arguments("process_count_per_node", "node_count")
    each, nodes = given.get("process_count_per_node"), given.get("node_count")
    is_one = each is None or _is_one(each)
    if found == "tensorflow":
        if not is_one:
            raise RefusalError(ONE_WORKER)
        text = "worker_count={nodes}, parameter_server_count=0" if nodes is not None else "parameter_server_count=0"
    elif is_one:
        text = "node_count={nodes}" if nodes is not None else ""
    elif nodes is None:
        text = "process_count={each}"
    elif isinstance(each, cst.Integer) and isinstance(nodes, cst.Integer):
        text = f"process_count={each.evaluated_value * nodes.evaluated_value}, node_count={{nodes}}"
    else:
        text = "process_count={each} * {nodes}, node_count={nodes}"
    parts = {name: part for name, part in (("each", each), ("nodes", nodes)) if part and f"{{{name}}}" in text}
    yield Replace(site.target, expression(f"{head}({text})", **parts))


def _distribution(site: Site, head: str, found: str) -> Iterator[Edit]:
    """SDK 2: the processes of a node, for PyTorch as for MPI."""
    given = site.arguments("process_count_per_instance")
    each = given.get("process_count_per_instance")
    if found == "torch":
        yield Replace(site.node, Template(head))
    elif each is not None and not _is_one(each):
        raise RefusalError(ONE_WORKER)
    else:
        yield Replace(site.target, Template(f"{head}()"))


def _is_one(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer) and node.value == "1"
