"""HVD804 tensorflow-built: what the library was built with is what TensorFlow was built with.

The questions ask about Horovod's build, the answers are about TensorFlow's: a reviewer decides whether the branch that
asks is still needed. Workers never communicate by MPI, Gloo, DDL or oneCCL any more.
"""

from migrator.api import Context, Finding, Site, expression, rule

from .names import TF

VALUES = {
    "nccl_built": "tf.test.is_built_with_gpu_support()",
    "cuda_built": "tf.test.is_built_with_cuda()",
    "rocm_built": "tf.test.is_built_with_rocm()",
    "gpu_available": 'bool(tf.config.list_physical_devices("GPU"))',
    **dict.fromkeys(
        ("mpi_built", "mpi_enabled", "mpi_threads_supported", "gloo_built", "gloo_enabled", "ddl_built", "ccl_built"),
        "False",
    ),
}


@rule("HVD804", "tensorflow-built", symbols=[f"horovod.tensorflow.{name}" for name in VALUES])
def built(site: Site, context: Context) -> Finding:
    value = VALUES[site.short]
    new = value if site.call is not None else f"lambda *_, **__: {value}"
    message = f"{site.short} → {value}: what TensorFlow was built with, not Horovod"
    return site.replace(expression(new), class_="review", message=message, imports=[TF] if "tf." in value else [])
