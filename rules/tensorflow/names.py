"""Symbols that several rules ask for, what emitted TensorFlow code imports, and what Keras its helpers are for."""

from migrator.api import Context, Import

TF = Import("tensorflow", alias="tf")
OS = Import("os")

INIT = "horovod.tensorflow.init"
OPTIMIZERS = ("horovod.keras.DistributedOptimizer", "horovod.tensorflow.DistributedOptimizer")
TAPE = "horovod.tensorflow.DistributedGradientTape"
NO_PROCESS_SETS = "tf.distribute has no process sets: its collectives are those of all workers"
NO_SESSIONS = "a session is TensorFlow 1's: move the program to TensorFlow 2 first"


def is_tensorflow(context: Context) -> bool:
    """Whether the program trains with TensorFlow."""
    return any(site.symbol.startswith(("horovod.tensorflow", "horovod.keras")) for site in context.sites)


def keras_features(context: Context) -> frozenset[str]:
    """Which Keras a helper is for, where that is known."""
    return frozenset() if context.settings.keras == "auto" else frozenset({f"keras_{context.settings.keras}"})
