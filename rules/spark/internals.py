"""HVD507 spark-internals: what else lies under ``horovod.spark`` serves its launcher and its estimators.

Backends choose how an estimator starts its ranks; the driver and task services let Spark's tasks find one another;
data loaders, data modules and parameters belong to the estimators. Each is named with what does its work now.
"""

from migrator.api import Context, Finding, RefusalError, Site, rule

_LAUNCHER = "TorchDistributor starts the ranks in a barrier stage of Spark"
_DATA = "a data set for torch.utils.data.DataLoader reads the rank's part of the Parquet files"
INSTEAD = {
    "common.backend": f"chooses how an estimator starts its ranks: {_LAUNCHER}, num_proc is its num_processes",
    "common.params": "holds the parameters of estimators: the training function takes them as arguments",
    "common.util": "prepares data for estimators: df.write.parquet writes them, pyarrow.dataset reads them",
    "common.cache": "remembers which data an estimator has written: keep the path",
    "common.constants": "names what estimators agree on: write the value out",
    "common.serialization": "pickles an estimator's parameters: TorchDistributor pickles the function's arguments",
    "common.datamodule": f"reads data for estimators: {_DATA}",
    "common": "belongs to estimators: write the training as a function",
    "data_loaders": f"reads data in the background: {_DATA}, with num_workers",
    "torch": "belongs to the estimator for PyTorch: write the training as a function for TorchDistributor",
    "lightning": 'belongs to the estimator for Lightning: TorchDistributor runs Trainer(strategy="ddp").fit',
    "keras": "belongs to the estimator for Keras: write the training as a function for MirroredStrategyRunner",
    "tensorflow": "serves tf.data from workers of their own: tf.data.experimental.service does so",
    "driver": f"is the service by which tasks find one another: {_LAUNCHER}",
    "task": f"is the service of a task: {_LAUNCHER}",
    "gloo_run": f"starts ranks by Gloo: {_LAUNCHER}",
    "mpi_run": f"starts ranks by MPI: {_LAUNCHER}",
    "runner": f"is the launcher itself: {_LAUNCHER}",
    "conf": f"names the settings of the launcher: {_LAUNCHER}",
}
_PACKAGE = "horovod.spark"
_PARTS = sorted(INSTEAD, key=len, reverse=True)


@rule("HVD507", "spark-internals", symbols=[f"{_PACKAGE}.{part}.*" for part in INSTEAD])
def internals(site: Site, context: Context) -> Finding:
    inner = site.symbol.removeprefix(f"{_PACKAGE}.")
    part = next(part for part in _PARTS if inner.startswith(f"{part}."))
    raise RefusalError(f"{site.short} of {_PACKAGE}.{part} {INSTEAD[part]}")
