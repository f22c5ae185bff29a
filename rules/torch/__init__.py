"""Rules for horovod.torch."""

from migrator.api import also_known_as, answers_for

answers_for("horovod")
also_known_as("horovod.torch", "horovod.torch.mpi_ops", "horovod.torch.functions", "horovod.torch.optimizer")
also_known_as("horovod.torch.Compression", "horovod.torch.compression.Compression", "horovod.torch.mpi_ops.Compression")
