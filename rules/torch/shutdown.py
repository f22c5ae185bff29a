"""HVD102 shutdown: ``hvd.shutdown`` becomes leaving the process group.

Horovod's may be called twice, or without ``init``; ``destroy_process_group`` may not. Where a program has one call
of each, the plain call is the same.
"""

from migrator.api import Context, Finding, Site, expression, rule

from .names import DIST


@rule("HVD102", "shutdown", symbols=["horovod.torch.shutdown"])
def shutdown(site: Site, context: Context) -> Finding:
    inits, others = context.uses("horovod.torch.init"), context.uses("horovod.torch.shutdown")
    if site.call is None:
        return site.replace(expression("dist.destroy_process_group"), imports=[DIST])
    if len(others) == 1 and inits and any(init.scope is site.scope for init in inits):
        return site.replace(expression("dist.destroy_process_group()"), imports=[DIST])
    return site.replace(expression("destroy_process_group()"), helpers=["destroy_process_group"])
