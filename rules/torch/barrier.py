"""HVD305 barrier: all ranks wait for each other.

Horovod waits without limit; a process group gives up after its timeout (30 minutes on Gloo, 10 on NCCL, unless
``init_process_group`` is given another). Where one rank alone works right before the barrier, a reviewer must know
that.
"""

from migrator.api import Context, Finding, Site, cst, expression, rule

from ..guards import is_rank_guard
from .names import DIST
from .reduction import group_of, rewritten

PATIENCE = (
    "one rank works before it while the others wait; give init_process_group a timeout that is long enough "
    "(30 minutes on Gloo, 10 on NCCL by default)"
)


@rule("HVD305", "barrier", symbols=["horovod.torch.barrier"])
def barrier(site: Site, context: Context) -> Finding:
    if site.call is None:
        return site.replace(expression("dist.barrier"), imports=[DIST])
    arguments = site.arguments("process_set")
    if group_of(arguments, site.module) is not None:
        return rewritten(site, "dist.barrier(group={group})", [], arguments)
    if not follows_work_of_one_rank(site):
        return site.replace(expression("dist.barrier()"), imports=[DIST])
    message = f"barrier → dist.barrier(): {PATIENCE}"
    return site.replace(expression("dist.barrier()"), class_="review", message=message, imports=[DIST])


def follows_work_of_one_rank(site: Site) -> bool:
    """Whether the statement before the site's is done by some ranks alone."""
    line = site.module.index.line(site.target)
    holder = site.module.index.parent(line)
    if not isinstance(holder, (cst.IndentedBlock, cst.Module)):
        return False
    place = next(n for n, other in enumerate(holder.body) if other is line)
    before = holder.body[place - 1] if place else None
    return isinstance(before, cst.If) and is_rank_guard(before.test, site.module, site.scope)
