"""Manifests of an MPIJob that a program makes: named, with what to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from migrator.api import Context, Finding, Module, Site, cst, planner, rule

MADE = "kubeflow.MPIJob"


@planner
def plan_manifests(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the manifests that programs make, as dictionaries and as texts."""
    return (), [site for module in context.modules if "MPIJob" in module.text for site in _sites(module)]


def _sites(module: Module) -> Iterator[Site]:
    for string in module.index.strings:
        holder = module.index.parent(string)
        key = holder.key if isinstance(holder, cst.DictElement) else None
        is_kind = isinstance(key, cst.SimpleString) and key.raw_value == "kind" and string.raw_value == "MPIJob"
        if is_kind or "kind: MPIJob" in string.raw_value:
            yield Site(MADE, string, None, module, module.index.scope, module.index.scope)


@rule("HVD656", "mpi-job", symbols=[MADE])
def made(site: Site, context: Context) -> Finding | tuple[Finding, ...]:
    if not context.sites and "horovod" not in site.module.text.lower():
        return ()
    message = (
        "the program makes the manifest of an MPIJob, which is left as it is: a PyTorchJob has pytorchReplicaSpecs, "
        "Master with 1 replica and Worker with one less, a container called pytorch, torchrun and nprocPerNode; "
        "a TFJob has tfReplicaSpecs with the workers, and a container called tensorflow"
    )
    return site.found("review", message)
