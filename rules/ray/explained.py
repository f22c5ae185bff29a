"""HVD554 ray-elastic: elastic jobs on Ray have no counterpart that keeps state in memory.

``ElasticRayExecutor`` and the discovery of hosts keep the workers that survive, and the state that they committed. Ray
Train starts the function again on all workers: with ``ScalingConfig(num_workers=(MIN, MAX))`` and
``RunConfig(failure_config=FailureConfig(max_failures=N))``, and a function that loads ``ray.train.get_checkpoint()``
where it begins and hands one to ``ray.train.report`` where it committed.
"""

from migrator.api import Context, Finding, RefusalError, Site, rule

ELASTIC = {
    "horovod.ray.ElasticRayExecutor": "ElasticRayExecutor keeps the workers that survive and their state",
    "horovod.ray.elastic": "horovod.ray.elastic finds hosts that come and go",
    "horovod.ray.elastic_v2": "horovod.ray.elastic_v2 is the elastic side of RayExecutor",
}
INTERNAL = {
    "adapter": "is how RayExecutor talks to its workers",
    "driver_service": "lets hosts find the interfaces that they share",
    "ray_logger": "hands what a worker logs to callbacks of the driver: call ray.train.report instead",
    "strategy": "places workers on hosts, which ScalingConfig(placement_strategy=...) does",
    "utils": "finds network interfaces: set GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME by runtime_env",
}
CLASSES = {
    "horovod.ray.BaseHorovodWorker": "BaseHorovodWorker is the actor of a worker: Ray Train has its own",
    "horovod.ray.Coordinator": "Coordinator tells ranks where they meet, which Ray Train does",
    "horovod.ray.MiniSettings": "MiniSettings says how Horovod starts, and nothing takes its place",
    "horovod.ray.StaticAdapter": "StaticAdapter starts the workers of a RayExecutor, which TorchTrainer does",
    "horovod.ray.StaticParams": "StaticParams holds the arguments of a RayExecutor, which ScalingConfig does",
}


@rule("HVD554", "ray-elastic", symbols=[*ELASTIC, *(f"{name}.*" for name in ELASTIC)])
def elastic(site: Site, context: Context) -> Finding:
    owner = next(name for name in sorted(ELASTIC, reverse=True) if f"{site.symbol}.".startswith(f"{name}."))
    raise RefusalError(
        f"{site.short}: {ELASTIC[owner]}; Ray Train starts the function again (num_workers=(MIN, MAX), "
        "FailureConfig(max_failures=N)), which must load a checkpoint where it begins"
    )


@rule("HVD555", "ray-internals", symbols=[*CLASSES, *(f"horovod.ray.{module}.*" for module in INTERNAL)])
def internals(site: Site, context: Context) -> Finding:
    """HVD555 ray-internals: what lies under ``horovod.ray`` starts and joins workers, which Ray Train does.

    Only ``RayExecutor`` has a counterpart (HVD553). What a program takes from the modules around it is explained.
    """
    if site.symbol in CLASSES:
        raise RefusalError(CLASSES[site.symbol])
    module = site.symbol.removeprefix("horovod.ray.").partition(".")[0]
    raise RefusalError(f"{site.short} belongs to horovod.ray.{module}, which {INTERNAL[module]}")


@rule("HVD556", "ray-tune", symbols=["ray.tune.integration.horovod.*", "ray.train.horovod.*"])
def tune(site: Site, context: Context) -> Finding:
    """HVD556 ray-tune: a trial of Ray Tune that trains on several workers is a TorchTrainer.

    ``DistributedTrainableCreator`` made a trainable of a function with Horovod in it. Ray Tune takes a function that
    calls ``TorchTrainer(train, scaling_config=ScalingConfig(num_workers=N)).fit()``.
    """
    raise RefusalError(
        f"{site.short} belongs to {site.symbol.rpartition('.')[0]}, which Ray has given up: hand Ray Tune a function "
        "that calls TorchTrainer(train, scaling_config=ScalingConfig(num_workers=N)).fit()"
    )
