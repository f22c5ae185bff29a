"""The settings of a RayExecutor, which say how Horovod starts."""

from __future__ import annotations

from migrator.api import Context, Finding, RefusalError, Remove, Site, cst, rule

from .executor_plan import Executors
from .names import EXECUTOR

SETTINGS = f"{EXECUTOR}.create_settings"
SETTING_NAMES = ("timeout_s", "ssh_identity_file", "ssh_str", "placement_group_timeout_s", "nics")


@rule("HVD553", "ray-executor", symbols=[SETTINGS])
def create_settings(site: Site, context: Context) -> Finding:
    if site.call is None:
        raise RefusalError("create_settings is passed on as a value; nothing takes its place")
    names = list(site.arguments(*SETTING_NAMES))
    if next(context.plan(Executors)).refused:
        raise RefusalError("the settings stay with the executor that they are for")
    message = (
        f"the settings go: {', '.join(names) or 'they'} {'is' if len(names) == 1 else 'are'} about Horovod's start"
    )
    if "timeout_s" in names:
        message += "; TorchConfig's timeout_s would limit every collective (30 minutes without it)"
    if "nics" in names:
        message += "; set GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME by runtime_env to choose the network interface"
    if _is_argument(site.call, site):
        return site.found("review", message)
    target = site.assigned_to
    if not isinstance(target, cst.Name) or site.statement is None:
        raise RefusalError("the settings are kept where their uses are not in sight, and nothing takes their place")
    home = site.scope.home(target.value)
    uses = [r.node for r in site.module.index.references[target.value] if r.scope.home(target.value) is home]
    if not all(_is_argument(use, site) for use in uses) or home is None or len(home.bindings[target.value]) != 1:
        raise RefusalError("the settings are used for more than a RayExecutor, and nothing takes their place")
    return site.found("review", message, [Remove(site.statement)])


def _is_argument(node: cst.CSTNode, site: Site) -> bool:
    """Whether ``node`` is the first argument, or ``settings``, of a RayExecutor."""
    argument = site.module.index.parent(node)
    call = site.module.index.parent(argument) if isinstance(argument, cst.Arg) else None
    return isinstance(call, cst.Call) and site.module.symbols.get(id(call.func)) == EXECUTOR
