"""HVD505 estimators: an estimator is a training function, which is written out, and a model for ``mapInPandas``.

``TorchEstimator`` and ``KerasEstimator`` write the data frame as Parquet into a Store, run a training loop of their own
in ``horovod.spark.run``, and return a transformer. Nothing else has that loop, so it is written out: the skeleton below
reads its part of the Parquet files, trains as any function for TorchDistributor does, and lets rank 0 save the model.
In prediction, ``mapInPandas`` or ``pyspark.ml.functions.predict_batch_udf`` takes the place of ``transform``.

The estimator scaled the learning rate by the number of processes, and dropped what does not fill a last batch; whether
the new loop does so too is to be decided.

Example:

```python
estimator = TorchEstimator(
    num_proc=2,
    store=store,
    model=model,
    optimizer=optimizer,
    loss=loss,
    feature_cols=["x"],
    label_cols=["y"],
    batch_size=32,
    epochs=5,
)
predictions = estimator.fit(df).transform(test_df)
```

Use instead:

```python
def train(path, epochs):
    import pyarrow.dataset
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    files = sorted(pyarrow.dataset.dataset(path).files)[rank::size]
    loader = make_loader(files, batch_size=32)
    model = torch.nn.parallel.DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * size)
    for _ in range(epochs):
        for x, y in loader:  # as many batches on every rank
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    return model.module.state_dict()


df.repartition(2 * 10).write.mode("overwrite").parquet(path)
state = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False).run(train, path, epochs=5)
predictions = test_df.mapInPandas(predict_with(state), schema)
```
"""

from migrator.api import Context, Finding, RefusalError, Site, rule

_WHERE = "the page of HVD505 has a skeleton"
_FIT = "writes the data frame as Parquet and trains on it in a loop of its own: write that as a function for {runner}"
_MODEL = "is the transformer that an estimator returns: load the weights, and predict in mapInPandas"
TORCH = _FIT.format(runner="TorchDistributor")
INSTEAD = {
    "horovod.spark.torch.TorchEstimator": TORCH,
    "horovod.spark.torch.TorchModel": _MODEL,
    "horovod.spark.keras.KerasEstimator": _FIT.format(runner="MirroredStrategyRunner"),
    "horovod.spark.keras.KerasModel": _MODEL,
    "horovod.spark.lightning.TorchEstimator": f'{TORCH} that calls Trainer(strategy="ddp").fit',
    "horovod.spark.lightning.TorchModel": _MODEL,
    "horovod.spark.common.estimator.HorovodEstimator": "is what estimators inherit: write the training as a function",
    "horovod.spark.common.estimator.HorovodModel": _MODEL,
}


@rule("HVD505", "estimators", symbols=[*INSTEAD, *(f"{symbol}.*" for symbol in INSTEAD)])
def estimators(site: Site, context: Context) -> Finding:
    symbol = next(symbol for symbol in INSTEAD if f"{site.symbol}.".startswith(f"{symbol}."))
    raise RefusalError(f"{symbol.rpartition('.')[2]} {INSTEAD[symbol]}; {_WHERE}")
