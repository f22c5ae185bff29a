"""HVD308 grouped: a collective on each of several tensors.

Horovod's grouped forms send all tensors of a list together; the values are those of one collective for each tensor,
which is what takes their place. As under Horovod, the result is a list or a tuple.

Example:

```python
means = hvd.grouped_allreduce([loss, accuracy])
```

Use instead:

```python
means = [all_reduce_mean(tensor) for tensor in [loss, accuracy]]
```
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import chain, count

from migrator.api import Context, Edit, Finding, Insert, Remove, Replace, Site, children_of, cst, rule

from .allgather import gathered
from .allreduce import PARAMETERS, REDUCING, tensor_arguments, waited
from .gradient_free import is_detached, is_without_gradients
from .reducescatter import COMPRESSING, scattered, scattering
from .reduction import Arguments, reduction_of, rewritten


@rule("HVD308", "grouped", symbols=["horovod.torch.grouped_allreduce"])
def grouped_allreduce(site: Site, context: Context) -> Finding:
    arguments = tensor_arguments(site, "tensors", *PARAMETERS[1:])
    if site.is_discarded:
        return waited(site, arguments)
    reduction = reduction_of(arguments, site)
    each = name_for_each(arguments)
    code, helper = reduction.reduced(each, are_gradient_free(site, arguments["tensors"]))
    code = f"[{code} for {each} in {{tensors}}]"
    return rewritten(site, code, [helper], arguments, reduction.operation.note)


@rule("HVD308", "grouped", symbols=["horovod.torch.grouped_allreduce_"])
def grouped_allreduce_in_place(site: Site, context: Context) -> Finding:
    arguments = tensor_arguments(site, "tensors", *REDUCING[1:])
    reduction = reduction_of(arguments, site)
    if site.is_discarded and _has_own_line(site):
        each = name_for_each(arguments, site.module.index.names)
        is_free = reduction.ends or are_gradient_free(site, arguments["tensors"])
        code, helpers = reduction.done_in_place(each if is_free else f"{each}.detach()")
        code = f"for {each} in {{tensors}}:\n    {code}"
        note, message = reduction.operation.note, f"{site.short} → a loop over the tensors"
        return _as_statements(site, rewritten(site, code, helpers, arguments, note, message=message))
    each = name_for_each(arguments)
    code, helper = reduction.reduced_in_place(each)
    code = f"tuple({code} for {each} in {{tensors}})"
    return rewritten(site, code, [helper], arguments, reduction.operation.note)


@rule("HVD308", "grouped", symbols=["horovod.torch.grouped_allgather"])
def grouped_allgather(site: Site, context: Context) -> Finding:
    arguments = tensor_arguments(site, "tensors", "name", "process_set")
    each = name_for_each(arguments)
    code, helper = gathered(each, site, arguments, are_gradient_free(site, arguments["tensors"]))
    code = f"tuple({code} for {each} in {{tensors}})"
    return rewritten(site, code, [helper], arguments)


@rule("HVD308", "grouped", symbols=["horovod.torch.grouped_reducescatter"])
def grouped_reducescatter(site: Site, context: Context) -> Finding:
    arguments = tensor_arguments(site, "tensors", *COMPRESSING)
    reduction = scattering(arguments, site)
    each = name_for_each(arguments)
    code, helper = scattered(each, reduction, are_gradient_free(site, arguments["tensors"]))
    code = f"[{code} for {each} in {{tensors}}]"
    return rewritten(site, code, [helper], arguments, reduction.operation.note)


def name_for_each(arguments: Arguments, taken: Collection[str] = ()) -> str:
    """A name for one of the tensors: neither one that the arguments use themselves, nor ``taken``."""
    used = {name for node in arguments.values() for name in _names(node)}.union(taken)
    candidates = chain(("tensor", "each"), (f"tensor_{number}" for number in count(2)))
    return next(name for name in candidates if name not in used)


def _names(node: cst.CSTNode) -> set[str]:
    own = {node.value} if isinstance(node, cst.Name) else set()
    return own.union(*(_names(child) for child in children_of(node)))


def are_gradient_free(site: Site, tensors: cst.BaseExpression) -> bool:
    """Whether no gradient can be asked of any of the tensors."""
    if is_without_gradients(site.target, site.module):
        return True
    if isinstance(tensors, (cst.ListComp, cst.GeneratorExp)):
        return is_detached(tensors.elt, site.module)
    elements = tensors.elements if isinstance(tensors, (cst.List, cst.Tuple)) else ()
    return bool(elements) and all(is_detached(element.value, site.module) for element in elements)


def _has_own_line(site: Site) -> bool:
    """Whether the site's statement shares its line with no other."""
    line = site.module.index.line(site.target)
    return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1


def _as_statements(site: Site, found: Finding) -> Finding:
    """``found``, with what it puts in the place of the call as statements of their own."""
    statement = site.statement
    assert statement is not None
    edits: list[Edit] = [Remove(statement)]
    edits += (Insert(statement, "before", edit.template) for edit in found.edits if isinstance(edit, Replace))
    return replace(found, edits=tuple(edits))
