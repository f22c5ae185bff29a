"""HVD832 tensorflow-explained: what tf.distribute has no counterpart for is explained, name by name.

Process sets, elastic training, layers that stay with one worker, reductions other than mean and sum, and what Horovod's
own modules happen to export. Each use is named with what to do instead, and blocks its program.
"""

from migrator.api import Context, Finding, RefusalError, Site, rule

RESTART = "write the state to files (tf.keras.callbacks.BackupAndRestore) and let the launcher restart the program"
INSTEAD = {
    "horovod.tensorflow.ProcessSet": "a process set is a part of the workers, and tf.distribute's collectives take all",
    "horovod.tensorflow.global_process_set": "global_process_set is all workers: leave the argument out",
    "horovod.tensorflow.add_process_set": (
        "add_process_set makes a part of the workers one by itself: start such parts as jobs of their own"
    ),
    "horovod.tensorflow.remove_process_set": "remove_process_set undoes add_process_set, which has no counterpart",
    "horovod.tensorflow.process_set_included_op": (
        "process_set_included_op asks whether this worker is in a process set: there are none"
    ),
    "horovod.tensorflow.join": (
        "join lets workers that ran out of data wait; tf.distribute's collectives would pair with other steps: give "
        "all workers as many steps, by take() or drop_remainder"
    ),
    "horovod.tensorflow.PartialDistributedGradientTape": (
        "PartialDistributedGradientTape leaves layers out of the reduction: take gradients of the others from "
        "hvd.DistributedGradientTape, and those of local layers from the plain tape"
    ),
    "horovod.keras.PartialDistributedOptimizer": (
        "PartialDistributedOptimizer leaves layers out of the reduction, which fit cannot do: write the training step "
        "with a tape"
    ),
    "horovod.keras.callbacks.BestModelCheckpoint": (
        "BestModelCheckpoint is ModelCheckpoint(save_best_only=True) whose path is set later: use that"
    ),
    "horovod.tensorflow.LocalGradientAggregationHelper": (
        "LocalGradientAggregationHelper adds up gradients of several batches: give backward_passes_per_step instead"
    ),
    "horovod.tensorflow.gradient_aggregation": (
        "gradient_aggregation adds up gradients in Horovod's optimizers, and goes with them"
    ),
    "horovod.tensorflow.is_homogeneous": "is_homogeneous asks whether all hosts have as many workers: leave it out",
    "horovod.tensorflow.check_extension": "check_extension asks whether Horovod was built: leave the call out",
    "horovod.tensorflow.check_num_rank_power_of_2": "check_num_rank_power_of_2 is what Adasum needs: leave it out",
    "horovod.tensorflow.handle_average_backwards_compatibility": (
        "handle_average_backwards_compatibility reads an old argument: pass op itself"
    ),
    "horovod.tensorflow.refs_to_vars": "refs_to_vars undoes vars_to_refs: keep the variables themselves",
    "horovod.tensorflow.vars_to_refs": "vars_to_refs makes variables keys: write variable.ref()",
    "horovod.tensorflow.split_list": "split_list cuts a list into parts of nearly one length: write the slices out",
    "horovod.tensorflow.util": "horovod.tensorflow.util holds Horovod's own functions: write out what is used of it",
    "horovod.tensorflow.data.*": (
        "horovod.tensorflow.data starts tf.data's service on Horovod's ranks: start tf.data.experimental.service's "
        "dispatcher and workers by themselves, and hand their address to the program"
    ),
    "horovod.keras.is_version_greater_equal_than": (
        "is_version_greater_equal_than compares TensorFlow's version: packaging.version.parse does that"
    ),
    "horovod.keras.callbacks.is_version_greater_equal_than": (
        "is_version_greater_equal_than of the callbacks compares TensorFlow's version: ask packaging.version"
    ),
    "horovod.tensorflow.elastic": f"horovod.tensorflow.elastic keeps survivors training: {RESTART}",
    "horovod.tensorflow.elastic.HorovodInternalError": (
        "HorovodInternalError says that a worker was lost; tf.distribute raises tf.errors.UnavailableError and does "
        "not recover: end the program"
    ),
    "horovod.tensorflow.elastic.ObjectState": f"ObjectState keeps objects in memory for survivors: {RESTART}",
    "horovod.tensorflow.elastic.TensorFlowKerasState": f"TensorFlowKerasState keeps a model in memory: {RESTART}",
    "horovod.tensorflow.elastic.TensorFlowState": f"TensorFlowState keeps variables in memory: {RESTART}",
    "horovod.tensorflow.elastic.run": f"elastic.run starts again in the workers that are left: {RESTART}",
    "horovod.tensorflow.elastic.run_fn": f"elastic.run_fn is elastic.run with a reset of one's own: {RESTART}",
    "horovod.keras.elastic": f"horovod.keras.elastic keeps survivors training: {RESTART}",
    "horovod.keras.elastic.CommitStateCallback": f"CommitStateCallback commits to memory: {RESTART}",
    "horovod.keras.elastic.KerasState": f"KerasState keeps a model in memory for survivors: {RESTART}",
    "horovod.keras.elastic.TensorFlowKerasState": f"elastic.TensorFlowKerasState is KerasState's base: {RESTART}",
    "horovod.keras.elastic.UpdateBatchStateCallback": f"UpdateBatchStateCallback counts batches in memory: {RESTART}",
    "horovod.keras.elastic.UpdateEpochStateCallback": f"UpdateEpochStateCallback counts epochs in memory: {RESTART}",
    "horovod.keras.elastic.run": f"keras.elastic.run starts again in the workers that are left: {RESTART}",
}


@rule("HVD832", "tensorflow-explained", symbols=list(INSTEAD))
def explained(site: Site, context: Context) -> Finding:
    raise RefusalError(INSTEAD.get(site.symbol) or INSTEAD["horovod.tensorflow.data.*"])
