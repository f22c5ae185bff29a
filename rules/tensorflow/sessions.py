"""HVD831 tensorflow-1: sessions, hooks and graphs of TensorFlow 1 are explained, use by use.

tf.distribute's collectives need TensorFlow 2's eager code or functions. A program of sessions and hooks is moved to
TensorFlow 2 first, with Horovod, and tested: ``tf_upgrade_v2`` for names; a loop with ``tf.GradientTape`` in a
``tf.function`` for sessions, hooks and ``feed_dict``; Keras's optimizers for those of ``tf.train``, with
``hvd.DistributedGradientTape`` around the tape; ``hvd.broadcast_variables`` after the first step for the hook;
``tf.train.Checkpoint`` for ``Saver``; a Keras model for an Estimator, which is gone since TensorFlow 2.16. Then its
Horovod is migrated.
"""

from collections.abc import Iterator

from migrator.api import Context, Finding, Module, RefusalError, Site, cst, rule

from ..values import symbol_of

MARKS = (
    "Session", "InteractiveSession", "MonitoredTrainingSession", "ConfigProto", "set_session", "get_session",
    "placeholder", "global_variables_initializer", "Estimator", "EstimatorSpec", "disable_eager_execution",
    "disable_v2_behavior", "get_default_graph", "SessionRunHook", "AdamOptimizer", "GradientDescentOptimizer",
    "MomentumOptimizer", "RMSPropOptimizer", "AdagradOptimizer", "MonitoredSession",
)  # fmt: skip

OF_TENSORFLOW = (
    "contrib", "Supervisor", "get_variable", "variable_scope", "make_one_shot_iterator", "get_or_create_global_step",
    "get_collection", "trainable_variables", "get_default_session", "global_variables",
)  # fmt: skip

INSTEAD = {
    "horovod.tensorflow.BroadcastGlobalVariablesHook": (
        "BroadcastGlobalVariablesHook is for monitored sessions: move the program to TensorFlow 2, and call "
        "hvd.broadcast_variables(model.variables, 0) after the first step"
    ),
    "horovod.tensorflow.broadcast_global_variables": (
        "broadcast_global_variables broadcasts a graph's global variables, and raises in eager code: move the program "
        "to TensorFlow 2, and name the variables in hvd.broadcast_variables(variables, 0)"
    ),
}


@rule("HVD831", "tensorflow-1", symbols=list(INSTEAD))
def sessions(site: Site, context: Context) -> Finding:
    raise RefusalError(INSTEAD[site.symbol])


def used_of_tensorflow_1(module: Module) -> Iterator[str]:
    """What a file uses of TensorFlow 1's sessions and graphs, each as it is written there."""
    nodes = [node for name in MARKS for node in module.index.attributes[name]]
    nodes += [
        node for name in OF_TENSORFLOW for node in module.index.attributes[name] if _is_of_tensorflow(node, module)
    ]
    yield from dict.fromkeys(module.source(node).strip() for node in nodes)


def _is_of_tensorflow(node: cst.Attribute, module: Module) -> bool:
    return symbol_of(node, module).partition(".")[0] == "tensorflow"
