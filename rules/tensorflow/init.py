"""HVD801 join-workers: ``hvd.init`` becomes joining the workers of TensorFlow's own strategy.

``MultiWorkerMirroredStrategy`` is used for its collectives: model, optimizer and data stay outside its scope. Its
constructor connects the workers that ``TF_CONFIG`` names, and must run before any operation, once; a small function
sees to that. Each process takes one device. Started by ``horovodrun``, ``mpirun`` or ``srun`` without ``TF_CONFIG``,
where N processes would each train alone, it raises.

TensorFlow lets workers join only before it has run anything, so they join above the lines of the same block that run
TensorFlow. It takes numbers of threads and logical devices only before that: where lines that set them follow in the
block, workers join behind them. Memory growth and the one visible device are set in joining; later lines that set the
same change nothing, and may stay.

Example:

```python
hvd.init()
```

Use instead:

```python
join_workers()
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from migrator.api import (
    Context,
    Finding,
    Helper,
    Insert,
    Module,
    RefusalError,
    Remove,
    Site,
    cst,
    dotted_name,
    expression,
    rule,
)

from ..values import calls_within, is_constant, symbol_of
from .names import INIT, TF
from .scope import is_in_scope, join
from .sessions import used_of_tensorflow_1

SETTERS = (
    "set_inter_op_parallelism_threads", "set_intra_op_parallelism_threads", "set_logical_device_configuration",
    "set_virtual_device_configuration",
)  # fmt: skip
GROWTH, VISIBLE = "set_memory_growth", "set_visible_devices"
TENSORFLOW_1 = (
    "the program is one of TensorFlow 1 ({named}): move it to TensorFlow 2 first, as hvd-migrate explain HVD831 says"
)
# Calls that set something without running an operation.
OF_TENSORFLOW = re.compile(r"(tensorflow|keras|tf_keras)\b")
HARMLESS = re.compile(
    r"\.(config|logging|autograph|datasets|gfile|Input)\b|\.(set_\w+|enable_\w+|get_logger|list_\w+)$"
)

Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement


@rule("HVD801", "join-workers", symbols=[INIT])
def init(site: Site, context: Context) -> Finding:
    if site.call is None:
        raise RefusalError("init is passed on as a value; call it where the program starts")
    found = [used for module in context.modules for used in used_of_tensorflow_1(module)]
    if found:
        named = ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
        raise RefusalError(TENSORFLOW_1.format(named=named))
    if site.call.args:
        raise RefusalError("which processes train is said by TF_CONFIG: init takes no arguments any more")
    setter, first, call = *_around(site), f"{join(context)}()"
    if setter is None and first is None:
        return _in_place(site, context)
    assert site.statement is not None
    if setter is not None and first is not None and not site.module.index.before(setter, first):
        return _in_place(site, context, "and behind the lines that set it up")
    message = f"init → {call} behind lines that set TensorFlow up, which it takes only before it runs"
    place = Insert(setter, "after", expression(call)) if setter is not None else None
    if first is not None:
        message = f"init → {call} above the lines that run TensorFlow, before which workers must join"
        place = place or Insert(first, "before", expression(call))
    assert place is not None
    return site.found("exact", message, (Remove(site.statement), place), helpers=_helpers(context))


def _helpers(context: Context) -> list[Helper]:
    """The function that joins; it lets memory grow where the program does, wherever that stands."""
    calls = [c for module in context.modules for c in _calls_of(GROWTH, module)]
    grows = bool(calls) and all(map(_grows, calls))
    return [Helper(f"tensorflow.{join(context)}", frozenset({"growth"} if grows else ()))]


def _calls_of(name: str, module: Module) -> Iterator[cst.Call]:
    for node in module.index.attributes[name]:
        call = module.index.parent(node)
        if isinstance(call, cst.Call) and call.func is node:
            yield call


def _in_place(site: Site, context: Context, besides: str = "") -> Finding:
    """The call where it stands, for a reviewer to move where TensorFlow may have run before."""
    tree, call = site.module.index.tree, expression(f"{join(context)}()")
    is_inside = site.scope.kind == "function"
    if not besides and not (is_inside and any(_runs_tensorflow(each, site.module) for each in tree.body)):
        return site.replace(call, helpers=_helpers(context))
    if is_in_scope(context):
        raise RefusalError(f"in a scope, workers must join before any line that runs TensorFlow {besides}".rstrip())
    message = f"init → {call.text}, which must come before any line that runs TensorFlow {besides}".rstrip()
    return site.replace(call, class_="review", message=message, helpers=_helpers(context))


def _around(site: Site) -> tuple[Statement | None, Statement | None]:
    """The last statement behind ``init`` that sets devices up, and the first before it that runs TensorFlow.

    Both are of its block. Where TensorFlow runs before ``init``, devices may be set up before it, too.
    """
    if site.statement is None or not site.is_discarded:
        return None, None
    index, module = site.module.index, site.module
    line = index.line(site.target)
    statements: list[Statement] = list(getattr(index.parent(line), "body", ()))
    place = next((number for number, each in enumerate(statements) if each is line), None)
    if place is None:
        return None, None
    first = next((each for each in statements[:place] if _runs_tensorflow(each, module)), None)
    setters = [each for each in statements if _sets_up(each, module)]
    last = setters[-1] if setters and (first is not None or statements.index(setters[-1]) >= place) else None
    return _small(last), _small(first)


def _small(statement: Statement | None) -> Statement | None:
    return statement.body[-1] if isinstance(statement, cst.SimpleStatementLine) else statement


def _sets_up(statement: Statement, module: Module) -> bool:
    """Whether TensorFlow takes what the statement sets only before it runs, and joining does not set the same."""
    if _is_definition(statement):
        return False
    for call in calls_within(statement):
        name = dotted_name(call.func).rpartition(".")[2]
        shown = "local_rank" in module.source(call)
        if name in SETTERS or (name == GROWTH and not _grows(call)) or (name == VISIBLE and not shown):
            return True
    return False


def _grows(call: cst.Call) -> bool:
    return len(call.args) == 2 and is_constant(call.args[1].value, "True")


def _runs_tensorflow(statement: cst.CSTNode, module: Module) -> bool:
    if _is_definition(statement):
        return False
    symbols = [symbol_of(call.func, module) for call in calls_within(statement)]
    return any(OF_TENSORFLOW.match(symbol) and not HARMLESS.search(symbol) for symbol in symbols)


def _is_definition(statement: cst.CSTNode) -> bool:
    return isinstance(statement, (cst.FunctionDef, cst.ClassDef))


@rule("HVD801", "join-workers", symbols=["horovod.tensorflow.is_initialized"])
def is_initialized(site: Site, context: Context) -> Finding:
    value = 'hasattr(tf.distribute, "workers")'
    return site.replace(expression(value if site.call is not None else f"lambda: {value}"), imports=[TF])


@rule("HVD801", "join-workers", symbols=["horovod.tensorflow.shutdown"])
def shutdown(site: Site, context: Context) -> Finding:
    if site.statement is None or not site.is_discarded:
        raise RefusalError("shutdown is no statement of its own; workers leave when their processes end")
    return site.found("exact", "shutdown goes: workers leave when their processes end", [Remove(site.statement)])
