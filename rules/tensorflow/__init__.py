"""Rules for horovod.tensorflow, horovod.tensorflow.keras and horovod.keras."""

from migrator.api import also_known_as

SHARED = (
    "init", "shutdown", "is_initialized", "rank", "size", "local_rank", "local_size", "cross_rank", "cross_size",
    "mpi_built", "mpi_enabled", "mpi_threads_supported", "gloo_built", "gloo_enabled", "nccl_built", "ddl_built",
    "ccl_built", "cuda_built", "rocm_built", "start_timeline", "stop_timeline", "Average", "Sum", "Min", "Max",
    "Product", "Adasum", "Compression", "ProcessSet", "global_process_set", "add_process_set", "remove_process_set",
    "broadcast_global_variables",
)  # fmt: skip
also_known_as("horovod.keras", "horovod.tensorflow.keras")
for name in SHARED:
    also_known_as(f"horovod.tensorflow.{name}", f"horovod.keras.{name}", f"horovod.tensorflow.keras.{name}")
also_known_as(
    "horovod.tensorflow",
    *(f"horovod.tensorflow.{module}" for module in ("mpi_ops", "functions", "compression", "sync_batch_norm")),
)
for name in ("init", "rank", "shutdown", "broadcast_object", "broadcast_object_fn", "broadcast_variables"):
    also_known_as(f"horovod.tensorflow.{name}", f"horovod.tensorflow.elastic.{name}")
