from migrator.helpers.tensorflow.join_workers import join_workers


def rank() -> int:
    """Return the number of this worker among all, counted from 0."""
    resolver = join_workers().cluster_resolver
    chiefs = len(resolver.cluster_spec().as_dict().get("chief", ()))
    return (resolver.task_id or 0) + (chiefs if resolver.task_type == "worker" else 0)
