"""What is asked of a RayExecutor, and whether Ray Train can do it."""

from __future__ import annotations

from collections.abc import Mapping

from migrator.api import RefusalError, Site, cst

from ..values import is_constant, symbol_of

TRAINING = ("run", "execute", "run_remote")
INSTEAD = {
    "execute_single": "calls a function on the first worker only: ask dist.get_rank() in the function given to run",
}


def obstacle(member: Site) -> str:
    """Why what ``member`` asks has no counterpart; empty where it has."""
    try:
        if member.short in ("start", "shutdown"):
            _check_statement(member)
        elif member.short in TRAINING:
            arguments_of(member)
            if member.short == "run_remote":
                waiting(member)
        else:
            reason = INSTEAD.get(member.short, "belongs to an object that keeps workers, which Ray Train does not have")
            raise RefusalError(f"{member.short} {reason}")
    except RefusalError as refusal:
        return str(refusal)
    return ""


def _check_statement(member: Site) -> None:
    if member.call is None or not member.is_discarded or member.statement is None:
        raise RefusalError(f"{member.short} is not a statement of its own, and nothing takes its place")
    if member.call.args:
        raise RefusalError(
            f"{member.short} is given a class, its arguments or variables for the workers: make the object, and set "
            "os.environ, in the function given to run"
        )


def arguments_of(member: Site) -> Mapping[str, cst.BaseExpression]:
    """What a run is given, but for None; raises RefusalError where Ray Train cannot be."""
    names = ("fn",) if member.short == "execute" else ("fn", "args", "kwargs")
    given = member.arguments(*names, "callbacks")
    arguments = {name: node for name, node in given.items() if not is_constant(node, "None")}
    if "fn" not in arguments:
        raise RefusalError(f"{member.short} is not given a function")
    if "callbacks" in arguments:
        raise RefusalError("callbacks get what the first worker logs through Horovod: report it with ray.train.report")
    return arguments


def waiting(member: Site) -> cst.Call:
    """The call of ``ray.get`` that waits for ``run_remote``; raises RefusalError where there is none."""
    argument = member.module.index.parent(member.target)
    call = member.module.index.parent(argument) if isinstance(argument, cst.Arg) else None
    if isinstance(call, cst.Call) and symbol_of(call.func, member.module) == "ray.get" and len(call.args) == 1:
        return call
    raise RefusalError("run_remote returns while the workers run: start the trainer in a thread, or in a task of Ray")
