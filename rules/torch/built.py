"""HVD105 built: what the library was built with is what PyTorch was built with.

The questions ask about Horovod's build, the answers are about PyTorch's: a reviewer decides whether the branch that
asks is still needed. The migrated program never communicates by MPI, DDL or oneCCL. ``gpu_available("torch")`` is asked
of Horovod's library, and becomes the question whether this machine has a GPU.
"""

from migrator.api import Context, Finding, RefusalError, Site, expression, rule

from .names import DIST, TORCH

VALUES = {
    "nccl_built": ("dist.is_nccl_available()", DIST),
    "gloo_built": ("dist.is_gloo_available()", DIST),
    "gloo_enabled": ("dist.is_initialized()", DIST),
    "cuda_built": ("torch.backends.cuda.is_built()", TORCH),
    "rocm_built": ("torch.version.hip is not None", TORCH),
    "mpi_built": ("False", None),
    "mpi_enabled": ("False", None),
    "mpi_threads_supported": ("False", None),
    "ddl_built": ("False", None),
    "ccl_built": ("False", None),
    "gpu_available": ("torch.cuda.is_available()", TORCH),
}
TAKEN = {"gpu_available": " *_, **__"}


@rule("HVD105", "built", symbols=[f"horovod.torch.{name}" for name in VALUES])
def built(site: Site, context: Context) -> Finding:
    value, needed = VALUES[site.short]
    new = value if site.call is not None else f"lambda{TAKEN.get(site.short, '')}: {value}"
    asked = "whether this machine has a GPU" if site.short in TAKEN else "what PyTorch was built with"
    message = f"{site.short} → {value}: {asked}, not Horovod"
    return site.replace(expression(new), class_="review", message=message, imports=[needed] if needed else [])


@rule("HVD105", "built", symbols=["horovod.__version__"])
def version(site: Site, context: Context) -> Finding:
    raise RefusalError("the version is that of a library which goes: ask for torch.__version__, or take it out")
