import tensorflow as tf

from migrator.helpers.tensorflow.average_gradients import average_gradients


def load_averaging_model(filepath: str, custom_objects: dict | None = None) -> tf.keras.Model:  # without compression
def load_averaging_model(  # with compression
    filepath: str, custom_objects: dict | None = None, compression: tf.DType | None = None  # with compression
) -> tf.keras.Model:  # with compression
    """Load a model whose optimizer averages gradients over all workers."""
    model = tf.keras.models.load_model(filepath, custom_objects)
    average_gradients(model.optimizer)  # without compression
    average_gradients(model.optimizer, compression)  # with compression
    return model
