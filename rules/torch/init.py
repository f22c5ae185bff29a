"""HVD101 init: ``hvd.init`` becomes joining the process group.

Horovod's ``init`` may be called twice and, without a launcher, starts one process alone; ``init_process_group``
raises in both cases. The helper does what Horovod did. Under ``horovodrun``, ``mpirun`` or ``srun`` with more than
one task, where N processes would each train alone as rank 0 of 1, it raises and names torchrun.

Example:

```python
hvd.init()
```

Use instead:

```python
init_process_group()
```
"""

from migrator.api import Context, Finding, RefusalError, Site, expression, rule


@rule("HVD101", "init", symbols=["horovod.torch.init"])
def init(site: Site, context: Context) -> Finding:
    if site.call is None:
        raise RefusalError("init is passed on as a value; call it where the program starts")
    if site.call.args:
        raise RefusalError("init is given ranks or process sets, which torch.distributed takes as process groups")
    return site.replace(expression("init_process_group()"), helpers=["init_process_group"])
