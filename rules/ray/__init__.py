"""Rules for Horovod on Ray."""

from migrator.api import also_known_as, answers_for

answers_for("ray.train.horovod", "ray.tune.integration.horovod", "ray.ml.train.integrations.horovod", within="ray")
also_known_as("horovod.ray", "horovod.ray.runner")
also_known_as("horovod.ray.BaseHorovodWorker", "horovod.ray.worker.BaseHorovodWorker")
also_known_as("horovod.ray.ElasticRayExecutor", "horovod.ray.elastic.ElasticRayExecutor")
also_known_as("ray.train.horovod", "ray.train.horovod.horovod_trainer", "ray.train.horovod.config")
also_known_as("ray.train.horovod", "ray.ml.train.integrations.horovod")
