"""HVD565 ignite-backend: ignite's backend "horovod" becomes PyTorch's own.

``idist.Parallel``, ``idist.spawn`` and ``idist.initialize`` take the name of a backend: "nccl" where there are GPUs,
"gloo" where there are none. ``idist.auto_model`` then wraps the model in DDP, and ``idist.auto_optim``, which wrapped
the optimizer for Horovod, does nothing: a program that uses only the latter would train on each rank alone, and is
blocked.

Example:

```python
with idist.Parallel(backend="horovod") as parallel:
    parallel.run(training, config)
```

Use instead:

```python
with idist.Parallel(backend="nccl" if torch.cuda.is_available() else "gloo") as parallel:
    parallel.run(training, config)
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from migrator.api import Context, Finding, Module, NextStep, RefusalError, Replace, Site, cst, expression, planner, rule

from ..torch.names import TORCH
from ..values import possible_values, symbol_of
from .chosen import site_of

BACKEND = "ignite.distributed.backend"
OPTIMIZER = "ignite.distributed.auto_optim"
FUNCTIONS = ("Parallel", "spawn", "initialize")
# Arguments of horovod.run that the processes of PyTorch do not take.
HOROVODS = ("hosts", "use_gloo", "use_mpi", "verbose", "comm", "ssh_port", "mpi_args", "network_interface")
UNWRAPPED = (
    "idist.auto_optim averaged gradients under Horovod, and does nothing for PyTorch's backends: put the model through "
    "idist.auto_model, which wraps it in DDP"
)


@planner
def plan_ignite(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the strings that choose Horovod as ignite's backend, and the optimizers that it wrapped."""
    sites = list({id(site.node): site for module in context.modules for site in _backends(module)}.values())
    if not sites:
        return (), ()
    paths = dict.fromkeys(site.module.path for site in sites)
    wrapped = [site_of(OPTIMIZER, node, module) for module in context.modules for node in _named("auto_optim", module)]
    text = "torchrun --nproc-per-node=N {}  (in place of horovodrun; with python where it spawns its processes)"
    return [NextStep(text.format(path)) for path in paths], [*sites, *wrapped]


def _named(name: str, module: Module) -> list[cst.Name | cst.Attribute]:
    nodes: list[cst.Name | cst.Attribute] = list(module.index.attributes[name])
    nodes += [reference.node for reference in module.index.references[name]]
    return [node for node in nodes if symbol_of(node, module).startswith("ignite.distributed")]


def _backends(module: Module) -> Iterator[Site]:
    for name in FUNCTIONS:
        for node in _named(name, module):
            call = module.index.parent(node)
            if isinstance(call, cst.Call) and call.func is node:
                yield from _backends_of(call, module)


def _backends_of(call: cst.Call, module: Module) -> Iterator[Site]:
    given = [a.value for a in call.args if a.keyword is not None and a.keyword.value == "backend"]
    given += [a.value for a in call.args[:1] if a.keyword is None and not a.star]
    names = [a.keyword.value for a in call.args if a.keyword is not None]
    for value in (v for one in given for v in possible_values(one, module)):
        if isinstance(value, cst.SimpleString) and value.raw_value == "horovod":
            symbol = f"{BACKEND}.spawned" if any(name in HOROVODS for name in names) else BACKEND
            yield site_of(symbol, value, module.holding(value))


@rule("HVD565", "ignite-backend", symbols=[BACKEND])
def backend(site: Site, context: Context) -> Finding:
    new = expression('"nccl" if torch.cuda.is_available() else "gloo"')
    message = (
        "backend 'horovod' → NCCL where there are GPUs, else Gloo: the model must go through idist.auto_model or DDP"
    )
    return site.found("review", message, [Replace(site.node, new)], imports=[TORCH])


@rule("HVD565", "ignite-backend", symbols=[f"{BACKEND}.spawned"])
def spawned(site: Site, context: Context) -> Finding:
    raise RefusalError(
        "an argument is one of horovod.run: give nproc_per_node, nnodes, node_rank and master_addr instead"
    )


@rule("HVD566", "ignite-optimizer", symbols=[OPTIMIZER])
def optimizer(site: Site, context: Context) -> Finding:
    """HVD566 ignite-optimizer: ``idist.auto_optim`` averages nothing with PyTorch's backends.

    For Horovod it wrapped the optimizer and broadcast its state. With "nccl" or "gloo" it returns the optimizer as it
    is, and ``idist.auto_model`` makes DDP average the gradients. Arguments are DistributedOptimizer's.
    """
    if not any(_named("auto_model", module) for module in context.modules):
        raise RefusalError(UNWRAPPED)
    call = site.module.index.parent(site.node)
    if isinstance(call, cst.Call) and len(call.args) > 1:
        raise RefusalError("the arguments after the optimizer are those of Horovod's: idist.auto_model takes DDP's")
    return site.found("exact", "auto_optim returns the optimizer as it is: auto_model lets DDP average the gradients")
