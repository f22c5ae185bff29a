import os

import tensorflow as tf


def join_workers() -> tf.distribute.MultiWorkerMirroredStrategy:
    """Join the workers that TF_CONFIG names, one device each; started without it, train alone."""
    if hasattr(tf.distribute, "workers"):  # kept where every file finds it: a process may join only once
        return tf.distribute.workers
    for variable in ("WORLD_SIZE", "HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"):
        if "TF_CONFIG" not in os.environ and int(os.environ.get(variable, 1)) > 1:
            raise RuntimeError(f"{variable} asks for several processes: start them with TF_CONFIG")
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:  # with growth
        tf.config.experimental.set_memory_growth(gpu, True)  # with growth
    if len(gpus) > 1:
        tf.config.set_visible_devices(gpus[int(os.environ.get("LOCAL_RANK", 0))], "GPU")
    tf.distribute.workers = tf.distribute.MultiWorkerMirroredStrategy()
    return tf.distribute.workers
