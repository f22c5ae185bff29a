"""HVD506 store: a Store is a folder, and files in it are written by what writes files.

Estimators keep their Parquet files, checkpoints and logs in a Store, which knows local folders, HDFS, DBFS and what
fsspec knows. Spark writes Parquet to a path of any of these; checkpoints are ``torch.save`` on rank 0, to a path that
all workers see.

Example:

```python
store = Store.create("hdfs:///experiments")
torch.save(model.state_dict(), store.get_checkpoint_path("run"))
```

Use instead:

```python
root = "hdfs:///experiments"
with fsspec.open(f"{root}/runs/run/checkpoint", "wb") as file:
    torch.save(model.state_dict(), file)
```
"""

from migrator.api import Context, Finding, RefusalError, Site, rule

_MODULE = "horovod.spark.common.store"
NAMES = ("Store", "AbstractFilesystemStore", "FilesystemStore", "LocalStore", "HDFSStore", "DBFSLocalStore")


@rule("HVD506", "store", symbols=[*(f"{_MODULE}.{name}" for name in NAMES), f"{_MODULE}.*"])
def store(site: Site, context: Context) -> Finding:
    name = site.symbol.removeprefix(f"{_MODULE}.")
    raise RefusalError(
        f"{name} is where estimators keep data and checkpoints: give df.write.parquet and torch.save, on rank 0, "
        "a path of that file system"
    )
