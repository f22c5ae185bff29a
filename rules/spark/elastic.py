"""HVD504 spark-run-elastic: nothing on Spark runs a function on a number of ranks that changes.

TorchDistributor starts a fixed number of ranks in one barrier stage, and all fail where one does. A job that is to go
on after that saves checkpoints, loads the last one where it begins, and is started again by the driver.

Example:

```python
horovod.spark.run_elastic(train, num_proc=4, min_num_proc=2, max_num_proc=8)
```

Use instead:

```python
distributor = TorchDistributor(num_processes=4, local_mode=False, use_gpu=True)
for attempt in range(3):
    try:
        distributor.run(train)  # begins with the last checkpoint
        break
    except Exception:
        if attempt == 2:
            raise
```
"""

from migrator.api import Context, Finding, RefusalError, Site, rule


@rule("HVD504", "spark-run-elastic", symbols=["horovod.spark.run_elastic"])
def run_elastic(site: Site, context: Context) -> Finding:
    raise RefusalError(
        "run_elastic lets the number of ranks change, which nothing on Spark does now: load a checkpoint where the "
        "function begins, and have the driver start a TorchDistributor again after a failure"
    )
