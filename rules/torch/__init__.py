"""Rules for horovod.torch."""

from migrator.api import also_known_as, answers_for

answers_for("horovod")
also_known_as(
    "horovod.torch",
    *(f"horovod.torch.{module}" for module in ("mpi_ops", "functions", "optimizer", "compression", "sync_batch_norm")),
    *(f"horovod.common.{module}" for module in ("process_sets", "exceptions", "util")),
)
also_known_as("horovod.run", "horovod.runner.run")
also_known_as("horovod.torch.init", "horovod.torch.elastic.init")
also_known_as("horovod.torch.shutdown", "horovod.torch.elastic.shutdown")
also_known_as("horovod.torch.elastic", "horovod.torch.elastic.state", "horovod.torch.elastic.sampler")
also_known_as("horovod.torch.elastic.run_fn", "horovod.common.elastic.run_fn")
also_known_as("horovod.torch.elastic.ObjectState", "horovod.common.elastic.ObjectState")
also_known_as("horovod.torch.Compression.fp16", "horovod.torch.compression.FP16Compressor")
also_known_as("horovod.torch.Compression.none", "horovod.torch.compression.NoneCompressor")
also_known_as("horovod.torch.mpi_lib_v2", "horovod.torch.mpi_ops.mpi_lib")
also_known_as("horovod.torch.HorovodBasics", "horovod.common.basics.HorovodBasics")
for name in ("allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters", "rank"):
    also_known_as(f"horovod.torch.{name}", f"horovod.torch.elastic.state.{name}")
for name in ("rank", "size"):
    also_known_as(f"horovod.torch.{name}", f"horovod.torch.elastic.sampler.{name}")
