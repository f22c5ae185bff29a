"""HVD658 sagemaker: training jobs of Amazon SageMaker that ask for MPI ask for torchrun.

``{"torch_distributed": {"enabled": True}}`` makes SageMaker start the script by torchrun on every instance, with one
process for each GPU: ``processes_per_host`` and the options of MPI go. A job of TensorFlow gets TF_CONFIG by
``multi_worker_mirrored_strategy`` (TensorFlow 2.9 or later), one worker on an instance; with more it is left. Its
``model_dir``, where the code gives none, is then a place in S3, not ``/opt/ml/model``. Which framework it is, is told
from the script where it is among the given files, else from the estimator. Together with SageMaker's own libraries,
which start by MPI themselves, it is left too.

Example:

```python
PyTorch("train.py", distribution={"mpi": {"enabled": True, "processes_per_host": 8}})
```

Use instead:

```python
PyTorch("train.py", distribution={"torch_distributed": {"enabled": True}})
```
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from migrator.api import (
    Context,
    Document,
    Edit,
    Finding,
    Module,
    RefusalError,
    Replace,
    Site,
    Span,
    Surroundings,
    Template,
    TextFinding,
    cst,
    expression,
    file_rule,
    planner,
    rule,
)

from ..values import possible_values, symbol_of
from .submission import framework, framework_in, imports, is_known

ASKED = "sagemaker.mpi"
NEW = {"torch": "torch_distributed", "tensorflow": "multi_worker_mirrored_strategy"}
ONE_WORKER = (
    "one worker on each instance, and gives model_dir, where the code does not, a place in S3, not /opt/ml/model"
)
HYPERPARAMETER = re.compile(r"sagemaker_mpi_enabled")


@file_rule("HVD658", "sagemaker")
def sagemaker(document: Document, surroundings: Surroundings) -> Iterator[TextFinding]:
    for match in HYPERPARAMETER.finditer(document.text) if document.kind == "yaml" else ():
        message = (
            "the job asks SageMaker to start its script by MPI: where that used Horovod, "
            "sagemaker_torch_distributed_enabled starts PyTorch, and sagemaker_multi_worker_mirrored_strategy_enabled "
            "TensorFlow"
        )
        yield TextFinding(Span(*match.span()), "review", message, symbol=match[0])


@planner
def plan_sagemaker(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find where estimators are asked for MPI."""
    return (), [site for module in context.modules if imports(module, "sagemaker") for site in _sites(module)]


def _sites(module: Module) -> Iterator[Site]:
    for string in module.index.strings:
        holder = module.index.parent(string)
        if string.raw_value == "mpi" and isinstance(holder, cst.DictElement) and holder.key is string:
            yield Site(ASKED, string, None, module, module.index.scope, module.index.scope)


@rule("HVD658", "sagemaker", symbols=[ASKED])
def asked(site: Site, context: Context) -> Finding | tuple[Finding, ...]:
    element = site.module.index.parent(site.node)
    assert isinstance(element, cst.DictElement)
    options = _options(element.value, site.module)
    enabled = _value(options, "enabled")
    if isinstance(enabled, cst.Name) and enabled.value == "False":
        return ()
    if not is_known(site.module, context):
        message = "the estimator starts its script by MPI: where that used Horovod, torch_distributed starts it now"
        return site.found("note", message)
    _check_alone(site, element)
    found, assumed = framework(site.module, context, _estimator(site))
    each = _value(options, "processes_per_host")
    if found == "tensorflow" and not (each is None or (isinstance(each, cst.Integer) and each.value == "1")):
        raise RefusalError(
            "SageMaker starts one worker of TensorFlow on an instance: take instances with one GPU, and "
            'distribution={"multi_worker_mirrored_strategy": {"enabled": True}}'
        )
    dropped = [key for key in ("processes_per_host", "custom_mpi_options") if _value(options, key) is not None]
    sets = "-x" in site.module.source(_value(options, "custom_mpi_options") or options)
    instead = "; variables that its -x set belong in the estimator's environment" if sets else ""
    return site.found("review", _message(found, dropped) + instead + assumed, list(_edits(site, options, found)))


def _message(found: str, dropped: list[str]) -> str:
    starts = "one process for each GPU of an instance" if found == "torch" else ONE_WORKER
    went = f"; dropped: {', '.join(dropped)}" if dropped else ""
    return f"mpi → {NEW[found]}: SageMaker starts {starts}{went}"


def _options(value: cst.BaseExpression, module: Module) -> cst.Dict:
    """The options of MPI as a dictionary, here or where a variable gets them."""
    found = list(possible_values(value, module, of_horovod=False))
    if len(found) != 1 or not isinstance(found[0], cst.Dict):
        raise RefusalError('the options of MPI are put together at run time: write {"enabled": True} in their place')
    return found[0]


def _value(options: cst.Dict, key: str) -> cst.BaseExpression | None:
    for element in options.elements:
        name = element.key if isinstance(element, cst.DictElement) else None
        if isinstance(name, cst.SimpleString) and name.raw_value == key:
            return element.value
    return None


def _check_alone(site: Site, element: cst.DictElement) -> None:
    """Raise RefusalError where SageMaker's own libraries are asked for too: they need MPI."""
    holder = site.module.index.parent(element)
    others = [e for e in holder.elements if e is not element] if isinstance(holder, cst.Dict) else []
    if any(not isinstance(e, cst.DictElement) or "smdistributed" in site.module.source(e) for e in others):
        raise RefusalError("the distribution names a library of SageMaker's own, which starts by MPI itself")


def _estimator(site: Site) -> str:
    """The framework that the estimator around the site is for, or those of which the file imports the estimators."""
    for holder in site.module.index.ancestors(site.node):
        if isinstance(holder, cst.Call) and "sagemaker" in (symbol := symbol_of(holder.func, site.module)):
            return framework_in(symbol)
    bound = [b.symbol or "" for found in site.module.index.scope.bindings.values() for b in found]
    return framework_in(" ".join(symbol for symbol in bound if symbol.startswith("sagemaker")))


def _edits(site: Site, options: cst.Dict, found: str) -> Iterator[Edit]:
    assert isinstance(site.node, cst.SimpleString)
    quote = site.node.quote
    yield Replace(site.node, Template(f"{quote}{NEW[found]}{quote}", is_final=True))
    enabled = _value(options, "enabled")
    if enabled is None:
        raise RefusalError("the options of MPI do not say that it is enabled")
    if len(options.elements) > 1:
        yield Replace(options, expression(f"{{{quote}enabled{quote}: {{enabled}}}}", enabled=enabled))
