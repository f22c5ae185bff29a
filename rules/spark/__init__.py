"""Rules for Horovod on Spark."""

from migrator.api import also_known_as, answers_for

answers_for("sparkdl.HorovodRunner", "sparkdl.horovod")
also_known_as("sparkdl.HorovodRunner", "sparkdl.horovod.runner.HorovodRunner", "sparkdl.horovod.HorovodRunner")
also_known_as("horovod.spark.run", "horovod.spark.runner.run")
also_known_as("horovod.spark.run_elastic", "horovod.spark.runner.run_elastic")
for _framework, _estimator in (("torch", "Torch"), ("keras", "Keras"), ("lightning", "Torch")):
    for _kind in ("Estimator", "Model"):
        also_known_as(
            f"horovod.spark.{_framework}.{_estimator}{_kind}",
            f"horovod.spark.{_framework}.estimator.{_estimator}{_kind}",
        )
