"""The variables that Horovod, its build and its launcher read."""

from __future__ import annotations

from ..launch.environment import VARIABLES

KNOWN = frozenset(
    f"HOROVOD_{name}"
    for name in (
        *(
            "GPU",
            "GPU_OPERATIONS",
            "GPU_ALLREDUCE",
            "GPU_ALLGATHER",
            "GPU_BROADCAST",
            "GPU_ALLTOALL",
            "GPU_REDUCESCATTER",
        ),
        *(
            "CPU_OPERATIONS",
            "NCCL_HOME",
            "NCCL_INCLUDE",
            "NCCL_LIB",
            "NCCL_LINK",
            "CUDA_HOME",
            "CUDA_INCLUDE",
            "CUDA_LIB",
        ),
        *("ROCM_HOME", "ROCM_PATH", "NVTX_HOME", "NVTX_INCLUDE", "BUILD_ARCH_FLAGS", "BUILD_CUDA_CC_LIST", "CMAKE"),
        *("ALLOW_MIXED_GPU_IMPL", "SKIP_COMPILE", "LOCAL_VERSION", "DEBUG", "MIXED_INSTALL", "MPICXX_SHOW"),
        *("CONTROLLER", "ELASTIC", "ELASTIC_TIMEOUT", "HOSTNAME", "SECRET_KEY", "LOG_LEVEL", "LOG_HIDE_TIME"),
        *("FUSION_THRESHOLD", "CYCLE_TIME", "CACHE_CAPACITY", "TIMELINE", "TIMELINE_MARK_CYCLES", "THREAD_AFFINITY"),
        *("STALL_CHECK_TIME_SECONDS", "STALL_SHUTDOWN_TIME_SECONDS", "STALL_CHECK_DISABLE", "MPI_THREADS_DISABLE"),
        *("HIERARCHICAL_ALLREDUCE", "HIERARCHICAL_ALLGATHER", "TORUS_ALLREDUCE", "ENABLE_XLA_OPS", "NUM_NCCL_STREAMS"),
        *("DYNAMIC_PROCESS_SETS", "GLOO_IFACE", "GLOO_TIMEOUT_SECONDS", "GLOO_RENDEZVOUS_ADDR", "GLOO_RENDEZVOUS_PORT"),
        *(
            "START_TIMEOUT",
            "SPARK_START_TIMEOUT",
            "SPARK_WORK_DIR",
            "SPARK_PYTHONPATH",
            "CCL_CACHE",
            "CCL_BGT_AFFINITY",
        ),
        *("AUTOTUNE", "AUTOTUNE_LOG", "AUTOTUNE_WARMUP_SAMPLES", "AUTOTUNE_STEPS_PER_SAMPLE", "DISABLE_GROUP_FUSION"),
        *(
            "AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
            "AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
            "BATCH_D2D_MEMCOPIES",
            "DISABLE_NVTX_RANGES",
        ),
        *("ENABLE_ASYNC_COMPLETION", "ADASUM_MPI_CHUNK_SIZE", "SPARK_USE_LOCAL_RANK_GPU_INDEX", "MPI", "GLOO"),
    )
)
OF_BUILDS = (
    *(
        "HOROVOD_WITH_",
        "HOROVOD_WITHOUT_",
        "HOROVOD_GPU",
        "HOROVOD_CPU_OPERATIONS",
        "HOROVOD_NCCL_",
        "HOROVOD_CUDA_",
        "HOROVOD_ROCM_",
    ),
    *("HOROVOD_NVTX_", "HOROVOD_BUILD_", "HOROVOD_CMAKE", "HOROVOD_VERSION", "HVD_VERSION"),
)


def is_of_horovod(name: str) -> bool:
    """Whether a variable has a meaning for Horovod, its build or its launcher, and for nothing else."""
    is_set = name.startswith("HOROVOD_") and name in VARIABLES
    return is_set or name in KNOWN or name.startswith(("HOROVOD_WITH_", "HOROVOD_WITHOUT_"))


def is_of_builds(name: str) -> bool:
    """Whether only a build of Horovod reads a variable."""
    return name.startswith(OF_BUILDS)
