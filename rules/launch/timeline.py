"""HVD110 timeline: Horovod's timeline goes; ``torch.profiler`` records what communication takes.

``start_timeline`` writes a trace of Horovod's own collectives, which are no more. The statement goes; who still looks
at traces wraps the training in ``torch.profiler.profile()`` and calls ``export_chrome_trace``.

Example:

```python
hvd.start_timeline("/tmp/timeline.json")
```
"""

from migrator.api import Context, Finding, RefusalError, Remove, Site, rule

INSTEAD = {
    "horovod.tensorflow.start_timeline": "start tf.profiler.experimental.start(logdir) here to record collectives",
    "horovod.tensorflow.stop_timeline": "call tf.profiler.experimental.stop() here to have a trace",
    "horovod.torch.start_timeline": "start torch.profiler.profile() here to record collectives",
    "horovod.torch.stop_timeline": "stop the profiler here and call its export_chrome_trace(path) to have a trace",
}


@rule("HVD110", "timeline", symbols=list(INSTEAD))
def timeline(site: Site, context: Context) -> Finding:
    if not site.is_discarded or site.statement is None or site.call is None:
        raise RefusalError(f"{site.short} is not a statement of its own; {INSTEAD[site.symbol]}")
    message = f"{site.short} goes with Horovod's own collectives; {INSTEAD[site.symbol]}"
    return site.found("review", message, [Remove(site.statement)])
