"""HVD106 run: ``horovod.run`` becomes torch's own launcher, for the ranks of one machine.

``horovod.run(function, np=N)`` starts N processes and returns their results in the order of ranks.
``elastic_launch`` is what torchrun calls: it does the same on this machine. Hosts have no counterpart in one call:
torchrun is started on each of them, and the program says so when hosts are named. For TensorFlow a function starts the
workers, with TF_CONFIG for each. Which library Horovod communicates
by is not a question any more, nor how to reach other hosts. Arguments for elastic jobs, and those that name hosts in
other ways, are explained one by one.

Example:

```python
horovod.run(main, args=(args,), np=4)
```

Use instead:

```python
run_on_ranks(main, args=(args,), num_processes=4)
```
"""

from migrator.api import Context, Finding, RefusalError, Site, cst, dotted_name, expression, rule

from ..guards import is_main_guard
from ..tensorflow.names import is_tensorflow
from ..values import is_constant

TAKEN = ("func", "args", "kwargs", "np", "num_proc", "hosts")
DROPPED = (
    *("use_gloo", "use_mpi", "verbose", "disable_cache", "start_timeout", "output_filename", "mpi_args"),
    *("ssh_port", "ssh_identity_file", "network_interface", "network_interfaces"),
)
REFUSED = {
    **dict.fromkeys(
        ("min_num_proc", "min_np", "max_num_proc", "max_np"),
        "says that the number of ranks may change: start the script with torchrun --nnodes=MIN:MAX, and load a "
        "checkpoint at its start",
    ),
    "slots": "is the number of ranks on each host that joins: it is torchrun's --nproc-per-node",
    "reset_limit": "is how often the job may start again: it is torchrun's --max-restarts",
    "cooldown_range": "keeps hosts that failed out for a while, which torchrun does not: leave it out",
    "host_discovery_script": "finds hosts that join: start torchrun on each, with --rdzv-endpoint",
    "hostfile": "names hosts in a file: start torchrun on each of them, with --nnodes and --rdzv-endpoint",
    "executable": "is another Python: start the script with that one's torchrun",
}


@rule("HVD106", "run", symbols=["horovod.run"])
def run(site: Site, context: Context) -> Finding:
    if site.call is None or any(argument.keyword is None for argument in site.call.args[3:]):
        raise RefusalError("horovod.run is passed on as a value, or called with arguments that have no names")
    arguments = site.arguments("func", "args", "kwargs", "np", *TAKEN[4:], *DROPPED, *REFUSED)
    for name, reason in REFUSED.items():
        if name in arguments and not is_constant(arguments[name], "None"):
            raise RefusalError(f"{name} {reason}")
    number = arguments.get("np", arguments.get("num_proc"))
    if "func" not in arguments or number is None:
        raise RefusalError("the call does not say what it runs, or on how many ranks")
    if not _is_importable(arguments["func"], site):
        raise RefusalError("the ranks are started as new processes, which find functions of a module only")
    if _runs_on_import(site):
        raise RefusalError("the ranks import this file again: put the call under if __name__ == '__main__'")
    parts = {name: arguments[name] for name in ("func", "args", "kwargs", "hosts") if name in arguments}
    keywords = ["args={args}", "kwargs={kwargs}", "num_processes={number}", "hosts={hosts}"]
    chosen = [keyword for keyword in keywords if keyword.partition("=")[0] in (*parts, "num_processes")]
    function, helper, launcher = _launcher(context)
    new = expression(f"{function}({{func}}, {', '.join(chosen)})", number=number, **parts)
    message = f"horovod.run → {function}(), which starts the ranks of this machine; {launcher} starts those of several"
    return site.replace(new, class_="review", message=f"{message} hosts", helpers=[helper])


def _launcher(context: Context) -> tuple[str, str, str]:
    """The function that starts ranks of this program, its helper, and what else starts them."""
    if is_tensorflow(context):
        return "run_on_workers", "tensorflow.run_on_workers", "the launcher that hvd-migrate places"
    return "run_on_ranks", "run_on_ranks", "torchrun"


def _runs_on_import(site: Site) -> bool:
    """Whether the call runs as soon as the file is imported."""
    for holder in site.module.index.ancestors(site.target):
        if isinstance(holder, (cst.FunctionDef, cst.Lambda)) or (isinstance(holder, cst.If) and is_main_guard(holder)):
            return False
    return True


def _is_importable(function: cst.BaseExpression, site: Site) -> bool:
    """Whether a new process finds ``function`` by its name: it is defined, or imported, at module level."""
    bindings = site.scope.lookup(dotted_name(function).partition(".")[0]) if dotted_name(function) else ()
    return bool(bindings) and all(b.scope.kind == "module" and b.kind in ("definition", "import") for b in bindings)
