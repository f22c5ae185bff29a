"""The ScalingConfig that asks for the workers of a RayExecutor."""

from __future__ import annotations

from collections.abc import Mapping

from migrator.api import RefusalError, Template, cst

from ..values import is_constant

STATIC = ("settings", "num_workers", "num_hosts", "num_workers_per_host", "cpus_per_worker", "use_gpu")
ELASTIC = ("min_workers", "max_workers", "reset_limit", "cooldown_range", "elastic_timeout", "override_discovery")
# What the arguments were called before Horovod 0.22.
FORMER = {"num_slots": "num_workers_per_host", "cpus_per_slot": "cpus_per_worker", "gpus_per_slot": "gpus_per_worker"}
NAMES = (*STATIC, "gpus_per_worker", "use_current_placement_group", *ELASTIC, *FORMER)
Arguments = Mapping[str, cst.BaseExpression]


def refuse_elastic(arguments: Arguments) -> None:
    """Raise RefusalError for an executor whose number of workers may change."""
    if given := [name for name in ELASTIC if name in arguments and not is_constant(arguments[name], "None")]:
        raise RefusalError(
            f"{given[0]} is about elastic jobs: ScalingConfig(num_workers=(MIN, MAX)) and FailureConfig(max_failures=N)"
            " start the function again, which must then load a checkpoint"
        )


def scaling(arguments: Arguments) -> tuple[Template, list[str]]:
    """The new code, and what there is to say of it."""
    given = {FORMER.get(name, name): node for name, node in arguments.items() if not is_constant(node, "None")}
    workers, notes = _workers(given)
    keywords = [*workers, *_resources(given)]
    if "use_current_placement_group" in given:
        notes.append("use_current_placement_group goes: Ray Train makes a placement group of its own")
    return Template(f"ScalingConfig({', '.join(keywords)})", given), notes


def _workers(given: Arguments) -> tuple[list[str], list[str]]:
    if "num_workers" in given:
        return ["num_workers={num_workers}"], []
    if "num_hosts" not in given:
        raise RefusalError("the call does not say how many workers it starts")
    per_host = given.get("num_workers_per_host")
    if per_host is None or is_constant(per_host, "1"):
        return ["num_workers={num_hosts}", 'placement_strategy="STRICT_SPREAD"'], []
    if is_constant(given["num_hosts"], "1"):
        return ["num_workers={num_workers_per_host}", 'placement_strategy="STRICT_PACK"'], []
    note = "Ray places workers where there is room: how many share a host is not set any more"
    return ["num_workers={num_hosts} * {num_workers_per_host}"], [note]


def _resources(given: Arguments) -> list[str]:
    """``use_gpu`` and what each worker takes; GPUs count only where they are used."""
    if "gpus_per_worker" in given and "use_gpu" in given and not _is_literal(given["use_gpu"]):
        raise RefusalError("whether gpus_per_worker counts is decided at run time: say use_gpu=True or False")
    uses_gpu = "use_gpu" in given and not is_constant(given["use_gpu"], "False")
    keywords = ["use_gpu={use_gpu}"] if "use_gpu" in given else []
    resources = ['"CPU": {cpus_per_worker}'] if "cpus_per_worker" in given else []
    if uses_gpu and "gpus_per_worker" in given:
        resources.append('"GPU": {gpus_per_worker}')
    return [*keywords, f"resources_per_worker={{{', '.join(resources)}}}"] if resources else keywords


def _is_literal(node: cst.BaseExpression) -> bool:
    return is_constant(node, "True") or is_constant(node, "False")
