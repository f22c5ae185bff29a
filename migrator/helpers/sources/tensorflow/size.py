from migrator.helpers.tensorflow.join_workers import join_workers


def size() -> int:
    """Return the number of workers."""
    return join_workers().num_replicas_in_sync
