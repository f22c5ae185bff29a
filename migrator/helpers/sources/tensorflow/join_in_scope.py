import tensorflow as tf

from migrator.helpers.tensorflow.gather_from_workers import gather_from_workers
from migrator.helpers.tensorflow.join_workers import join_workers


def join_in_scope() -> None:
    """Join the workers, and let Keras distribute what follows; each worker trains on what it reads itself."""
    strategy = join_workers()

    def local_data(dataset, options=None):
        steps = gather_from_workers(tf.data.experimental.cardinality(dataset)[tf.newaxis]).numpy().tolist()
        if len(set(steps)) > 1:
            raise ValueError(f"the workers have {steps} batches: give all of them as many")
        return strategy.distribute_datasets_from_function(lambda context: dataset, options)

    strategy.experimental_distribute_dataset = local_data  # Keras's way, to share out one data set among workers
    tf.distribute.experimental_set_strategy(strategy)
