"""HVD509 shipped-function: what a function takes from the driver is pickled with it.

Spark sends a function to the workers by value: with it goes what it takes from the notebook or script, in the function
or in others that it calls. What cannot be pickled is made in the function instead; a session of Spark and what belongs
to it exist on the driver alone. A large object, such as a model or a data set, is better made in each worker too.

A function of a module, or of an installed package, goes by reference: the workers import the module by its name, and
look for it neither in the folder of the program nor in the driver's ``sys.path``. Put the folder on PYTHONPATH of the
driver and the executors, install the package, or call ``register_pickle_by_value(module)`` of ``pyspark.cloudpickle``.

Example:

```python
lock = threading.Lock()


def train():
    with lock:
        hvd.init()
```

Use instead:

```python
def train():
    lock = threading.Lock()
    with lock:
        init_process_group()
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from migrator.api import Binding, Context, Finding, Module, Site, children_of, cst, dotted_name, rule

from ..values import is_of_project, symbol_of

SHIPPED = "pyspark.shipped"
DRIVER_ONLY = ("spark", "sc", "dbutils", "sqlContext", "displayHTML")
UNPICKLABLE = {
    **dict.fromkeys(("open", "fdopen", "TemporaryFile", "NamedTemporaryFile"), "an open file"),
    **dict.fromkeys(("Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier"), "a lock"),
    **dict.fromkeys(("Thread", "Pool", "ThreadPool", "ThreadPoolExecutor", "ProcessPoolExecutor"), "a running thread"),
    **dict.fromkeys(("getOrCreate", "SparkSession", "SparkContext", "SQLContext"), "the session of Spark"),
    **dict.fromkeys(("connect", "socket", "create_engine", "Session", "MongoClient", "Redis"), "a connection"),
    **dict.fromkeys(("SummaryWriter", "File"), "an open file"),
    **dict.fromkeys(("broadcast_variables", "accumulator"), "a variable of Spark"),
}
# What Spark's session gives that is the driver's own, and may travel.
COLLECTED = ("toPandas", "collect", "count", "take", "first", "head", "asDict", "get", "toJSON")
SMALL = frozenset(
    (
        *("int", "float", "str", "bool", "len", "abs", "min", "max", "sum", "round", "range", "format", "partial"),
        *("dict", "list", "set", "tuple", "sorted", "frozenset", "namedtuple", "dataclass", "field", "TypeVar"),
        *("get", "getenv", "parse_args", "Namespace", "Path", "getLogger", "loads", "safe_load", "literal_eval"),
        *("join", "dirname", "abspath", "strip", "split", "lower", "upper", "replace", "now", "time", "strftime"),
        *("device", "device_count", "is_available", "uuid4"),
    )
)


@dataclass(frozen=True, eq=False)
class Shipped:
    """Why a person must look at what a shipped function takes along, by the identity of the node."""

    reasons: Mapping[int, str]


@rule("HVD509", "shipped-function", symbols=[SHIPPED])
def shipped_function(site: Site, context: Context) -> Finding:
    reasons = next(context.plan(Shipped)).reasons
    return site.found("review", reasons[id(site.node)])


def taken_along(function: cst.BaseExpression, module: Module) -> Iterator[tuple[cst.CSTNode, str]]:
    """What is to be said of ``function``, which is shipped, and of each place where it takes something along."""
    if isinstance(function, cst.Call):
        yield from _of_call(function, module)
    elif isinstance(function, cst.Lambda):
        yield from _of_body(function, module, set())
    elif isinstance(function, cst.Attribute) and dotted_name(function.value).partition(".")[0] == "self":
        yield function, "the object goes along with its method: all that it holds must be picklable, and small"
    elif is_of_project(symbol := symbol_of(function, module), module):
        yield function, _by_reference(symbol)
    elif isinstance(function, cst.Name):
        yield from _of_name(function, module, set())


def _by_reference(symbol: str) -> str:
    holder = symbol.rpartition(".")[0] or symbol
    return (
        f"{symbol.rpartition('.')[2]} goes by reference: workers import {holder}, which is not looked for in the "
        "folder of this program: put that on PYTHONPATH, or install it"
    )


def _of_call(call: cst.Call, module: Module) -> Iterator[tuple[cst.CSTNode, str]]:
    if dotted_name(call.func).rpartition(".")[2] == "partial" and call.args:
        yield from taken_along(call.args[0].value, module)
        for argument in call.args[1:]:
            yield from handed_over(argument.value, module)
        return
    made = [made for binding in _named(call.func, module) for made in _made_in(binding, module)]
    for function in made:
        yield from _of_body(function, module, set())
    if not made:
        unless = "unless it returns a function, " if _may_make(call.func, module) else ""
        yield call, f"the function is called here, on the driver, and its result handed over: {unless}write run(f)"


def _may_make(function: cst.BaseExpression, module: Module) -> bool:
    """Whether ``function`` may return a function, as far as its code shows."""
    bindings = [binding.node for binding in _named(function, module)]
    if not bindings or not all(isinstance(node, cst.FunctionDef) for node in bindings):
        return True
    values = [statement.value for node in bindings for statement in _returns(node)]
    return any(isinstance(value, (cst.Name, cst.Call, cst.Attribute, cst.Lambda, cst.IfExp)) for value in values)


def _returns(node: cst.CSTNode) -> Iterator[cst.Return]:
    for child in children_of(node):
        if isinstance(child, cst.Return):
            yield child
        yield from _returns(child)


def _named(function: cst.BaseExpression, module: Module) -> Sequence[Binding]:
    if not isinstance(function, cst.Name):
        return ()
    return module.index.scope_of(function).lookup(function.value)


def _made_in(binding: Binding, module: Module) -> Iterator[cst.CSTNode]:
    """The functions that the function of ``binding`` makes and returns."""
    index = module.index
    for function in (f for f in index.functions if any(h is binding.node for h in index.ancestors(f))):
        for reference in index.references[function.name.value]:
            is_own = any(b.node is function for b in reference.scope.lookup(function.name.value))
            if is_own and isinstance(index.parent(reference.node), cst.Return):
                yield function


def handed_over(value: cst.BaseExpression, module: Module) -> Iterator[tuple[cst.CSTNode, str]]:
    """What is to be said of ``value``, an argument of a shipped function."""
    if not isinstance(value, cst.Name):
        return
    bindings = module.index.scope_of(value).lookup(value.value)
    kinds = list(filter(None, map(_unpicklable, bindings)))
    if value.value in DRIVER_ONLY and all(binding.scope.kind == "module" for binding in bindings):
        yield value, f"{value.value!r} exists on the driver only"
    elif kinds:
        yield value, f"{value.value!r} is {kinds[0]}, which cannot be pickled: make it in the function"


def _of_name(name: cst.Name, module: Module, seen: set[int]) -> Iterator[tuple[cst.CSTNode, str]]:
    for binding in module.index.scope_of(name).lookup(name.value):
        yield from _of_definition(binding, module, seen)


def _of_definition(binding: Binding, module: Module, seen: set[int]) -> Iterator[tuple[cst.CSTNode, str]]:
    node = binding.value if isinstance(binding.value, cst.Lambda) else binding.node
    if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)) and id(node) not in seen:
        yield from _of_body(node, module, seen)


def _of_body(body: cst.CSTNode, module: Module, seen: set[int]) -> Iterator[tuple[cst.CSTNode, str]]:
    """What a function or class takes from around it, and what those that it names take."""
    seen.add(id(body))
    index = module.index
    for name, references in index.references.items():
        for reference in references:
            if not any(holder is body for holder in index.ancestors(reference.node)):
                continue
            outer = [b for b in reference.scope.lookup(name) if not _is_inside(b, body, module)]
            if name in DRIVER_ONLY and all(b.scope.kind == "module" for b in reference.scope.lookup(name)):
                yield reference.node, f"{name!r} exists on the driver only"
            elif reason := next(filter(None, (_reason(b, module) for b in outer)), ""):
                yield reference.node, reason
            for binding in outer:
                yield from _of_definition(binding, module, seen)


def _is_inside(binding: Binding, body: cst.CSTNode, module: Module) -> bool:
    return binding.scope.node is body or any(holder is body for holder in module.index.ancestors(binding.scope.node))


def _reason(binding: Binding, module: Module) -> str:
    if kind := _unpicklable(binding):
        return f"{binding.name!r} is {kind}, which cannot be pickled: make it in the function"
    value = binding.value
    if binding.kind != "assignment" or not isinstance(value, (cst.Call, cst.GeneratorExp)):
        return ""
    if isinstance(value, cst.GeneratorExp):
        return f"{binding.name!r} is a generator, which cannot be pickled: make it in the function"
    if _made_by(value) in SMALL or symbol_of(value.func, module).startswith("os."):
        return ""
    if _root(value) in DRIVER_ONLY and _made_by(value) not in COLLECTED:
        return f"{binding.name!r} belongs to Spark's session, which exists on the driver only"
    if _made_by(value) == "DataLoader":
        return f"{binding.name!r} travels with its whole data set: make it in the function"
    return f"{binding.name!r} is made on the driver and travels with the function: it must be picklable, and small"


def _root(value: cst.BaseExpression) -> str:
    """The name with which a chain of calls and attributes begins."""
    while isinstance(value, (cst.Call, cst.Attribute)):
        value = value.func if isinstance(value, cst.Call) else value.value
    return dotted_name(value)


def _unpicklable(binding: Binding) -> str:
    """What ``binding`` is, if it cannot be pickled."""
    return UNPICKLABLE.get(_made_by(binding.value), "") if isinstance(binding.value, cst.Call) else ""


def _made_by(value: cst.Call) -> str:
    """The last name of what is called: ``getOrCreate`` of ``SparkSession.builder.getOrCreate()``."""
    return value.func.attr.value if isinstance(value.func, cst.Attribute) else dotted_name(value.func)
