"""Put before every other program here: prints the answer to one question as ``TRACE key answer``."""

import os
import re

import numpy as np
import tensorflow as tf

import horovod
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras

C = tf.constant
PAUSE = 0.6 if "stand-in" not in horovod.__version__ else 0.0  # what makes one rank the first to ask, of Horovod


def show(value):
    if isinstance(value, tf.IndexedSlices):
        return f"slices({show(value.values)}, {show(value.indices)}, {show(value.dense_shape)})"
    if isinstance(value, (tf.Tensor, tf.Variable)):
        return f"{value.dtype.name}{list(value.shape)}:{np.asarray(value.numpy()).tolist()}"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype}{list(value.shape)}:{value.tolist()}"
    if isinstance(value, np.generic):
        return f"{type(value).__name__} {value.item()}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(show, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{key}: {show(value[key])}' for key in sorted(value))})"
    return repr(value)


def essence(text):
    """What an error says, without where in a graph or a function it was raised."""
    if "recursion depth" in text:
        return "maximum recursion depth exceeded"
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    if lines[0] == "in user code:":
        return re.sub(r"^\s*\w+(Error|Exception): ", "", lines[-1])
    if lines[0] == "Graph execution error:":
        return next((before for before, line in zip(lines, lines[1:]) if "[[{{node" in line), lines[-1])
    text = re.sub(r"^{{function_node .*?}} | \[Op:\w+\] name: .*$", "", lines[0])
    return re.sub(r"<function .* at 0x\w+>", "FUNCTION", text)


def ask(key, question):
    try:
        answer = show(question())
    except Exception as error:
        answer = f"RAISED {type(error).__name__}: {essence(str(error))}"
    print("TRACE", key, answer, flush=True)


def in_function(question):
    """The answer of a graph."""
    return tf.function(question)()


def optimizers():
    """Keras 2's optimizers, new and old, by what they are called here."""
    return (("new", tf.keras.optimizers), ("legacy", tf.keras.optimizers.legacy))


def weights(model):
    return [value.flatten().tolist() for value in model.get_weights()]


def history(found):
    return {name: [float(value) for value in values] for name, values in found.history.items()}
