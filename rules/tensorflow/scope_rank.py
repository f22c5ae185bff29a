"""What a program does on some workers only, where Keras distributes it: all save, and the rest must touch no model.

Whatever reads values of a model, or runs it, is for all workers at once in a scope: done by one, it leaves the others
waiting, or pairs with what they do next and comes out wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from migrator.api import Class, Context, Edit, Insert, Module, Template, children_of, cst, dotted_name, expression

from ..followed import Followed
from ..values import calls_within, is_constant

RANKS = ("horovod.tensorflow.rank", "horovod.tensorflow.local_rank")
NUMBERS = (*RANKS, "horovod.tensorflow.size", "horovod.tensorflow.local_size")
UNKNOWN = "what the rank decides here is not known to leave Keras alone in a scope: leave --gradients scope out"
BY_SOME = (
    "only some workers get here, and all must do alike what concerns a model in a scope: leave --gradients scope out"
)
SAVED_BY_SOME = (
    "in a scope all workers must save, which takes 'if hvd.rank() == 0:' with no other test, no other branch, "
    "and a path that the others know too"
)
COLLECTIVE = "in a scope every worker saves, since values are read together: the others into a directory of their own"
TAKING = (
    "shard", "set_random_seed", "set_seed", "seed", "RandomState", "default_rng", "print", "format", "info", "debug",
    "warning", "str",
)  # fmt: skip
KEYWORDS = ("verbose", "seed", "index", "shard_index", "worker_index")
FUNCTIONS = (
    "print", "len", "str", "int", "float", "round", "max", "min", "sum", "sorted", "list", "dict", "zip", "range",
    "open", "enumerate",
)  # fmt: skip
CALLED = (
    "format", "join", "makedirs", "mkdir", "info", "warning", "debug", "error", "summary", "time", "keys", "items",
    "values", "dump", "dumps", "write", "writelines", "strftime", "now",
)  # fmt: skip
READ = (
    "weights", "variables", "trainable_weights", "trainable_variables", "non_trainable_weights", "optimizer", "metrics",
    "non_trainable_variables", "get_weights", "numpy", "learning_rate", "lr", "losses", "result", "layers",
)  # fmt: skip
SAVING = ("save", "save_weights")
LOGGING = ("TensorBoard", "CSVLogger", "ProgbarLogger")
SIMPLE = (cst.Pass, cst.Import, cst.ImportFrom)


@dataclass(frozen=True, eq=False)
class Claim:
    """What is said of a place in the program, with the edits that go with it."""

    node: cst.BaseExpression
    class_: Class
    message: str
    edits: tuple[Edit, ...] = ()
    helpers: tuple[str, ...] = ()
    at: cst.CSTNode | None = None


@dataclass(frozen=True)
class Test:
    """A test of the rank; ``is_plain`` where it holds for rank 0 and for no other."""

    node: cst.BaseExpression
    module: Module
    is_plain: bool


def claims_of_rank(context: Context) -> Iterator[tuple[Claim, Module]]:
    """What there is to say of every use of a worker's number."""
    for symbol in RANKS:
        for site in context.uses(symbol):
            if site.call is None:
                yield Claim(site.node, "blocked", UNKNOWN), site.module
            else:
                yield from _number(site.target, site.module, symbol == RANKS[0], set())


def _number(node: cst.BaseExpression, module: Module, is_rank: bool, done: set[int]) -> Iterator[tuple[Claim, Module]]:
    """The uses of a number that is the rank, or made of it; ``done`` are those that were looked at."""
    done.add(id(node))
    for (_, depth), use in Followed(module).follow(node).seen.items():
        here = module.holding(use)
        holder = here.index.parent(use)
        if id(use) in here.symbols or _is_formatting(holder) or id(holder) in done:
            continue
        if isinstance(holder, cst.BinaryOperation):
            yield from _number(holder, here, False, done)
        elif isinstance(holder, cst.Comparison):
            yield from _test(Test(holder, here, is_rank and _is_zero_test(holder, use)), done)
        elif isinstance(holder, cst.UnaryOperation) and isinstance(holder.operator, cst.Not):
            yield from _test(Test(holder, here, is_rank), done)
        elif depth or not (_only_holds(use, here) or _is_told(use, here)):
            assert isinstance(use, cst.BaseExpression)
            yield Claim(use, "blocked", UNKNOWN), here


def _is_zero_test(node: cst.Comparison, rank: cst.CSTNode) -> bool:
    (first, *more) = node.comparisons
    return (
        node.left is rank and not more and isinstance(first.operator, cst.Equal) and is_constant(first.comparator, "0")
    )


def _only_holds(use: cst.CSTNode, module: Module) -> bool:
    """Whether a value only goes where it is followed to, or into a text, a slice, or nowhere."""
    index = module.index
    holder = index.parent(use)
    if isinstance(holder, cst.Arg):
        call = index.parent(holder)
        return isinstance(call, cst.Call) and bool(module.functions.reached(call, module))
    held = (cst.Assign, cst.AnnAssign, cst.AssignTarget, cst.NamedExpr, cst.Return, cst.Param, cst.Expr, cst.Index)
    return isinstance(holder, (*held, cst.Slice, cst.FormattedStringExpression))


def _is_told(use: cst.CSTNode, module: Module) -> bool:
    """Whether a value is given to a function that takes a number, or a test, without doing more on some workers."""
    argument = module.index.parent(use)
    call = module.index.parent(argument) if isinstance(argument, cst.Arg) else None
    if not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call):
        return isinstance(argument, cst.Element) and _is_formatted(argument, module)
    name = argument.keyword.value if argument.keyword is not None else ""
    if dotted_name(call.func) == "int":
        return _is_told(call, module) or _only_holds(call, module)
    short = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted_name(call.func)
    return name in KEYWORDS or short in TAKING


def _is_formatted(element: cst.Element, module: Module) -> bool:
    """Whether this is of the values that ``%`` puts into a text."""
    holder = module.index.parent(element)
    operation = module.index.parent(holder) if isinstance(holder, cst.Tuple) else None
    return _is_formatting(operation)


def _is_formatting(node: cst.CSTNode | None) -> bool:
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Modulo):
        return False
    return isinstance(node.left, cst.BaseString)


def _test(test: Test, done: set[int]) -> Iterator[tuple[Claim, Module]]:
    """The uses of a test of the rank; ``done`` are those that were looked at."""
    done.add(id(test.node))
    seen = Followed(test.module).follow(test.node).seen
    parents = [test.module.holding(use).index.parent(use) for use in seen.values()]
    is_plain = test.is_plain and not any(isinstance(p, (cst.BooleanOperation, cst.UnaryOperation)) for p in parents)
    for ((_, depth), use), holder in zip(seen.items(), parents, strict=True):
        here = test.module.holding(use)
        if isinstance(holder, cst.If) and holder.test is use:
            yield from ((claim, here) for claim in _Guard(holder, here, is_plain).claims())
        elif isinstance(holder, cst.UnaryOperation):
            yield from _test(Test(holder, here, False), done) if id(holder) not in done else ()
        elif not _is_harmless_test(use, holder, here, depth):
            assert isinstance(use, cst.BaseExpression)
            yield Claim(use, "blocked", UNKNOWN), here


def _is_harmless_test(use: cst.CSTNode, holder: cst.CSTNode | None, module: Module, depth: int) -> bool:
    if depth:
        return False
    if isinstance(holder, cst.IfExp) and holder.test is use:
        return all(_is_fixed(arm) for arm in (holder.body, holder.orelse))
    return isinstance(holder, (cst.BooleanOperation, cst.IfExp)) or _only_holds(use, module) or _is_told(use, module)


def _is_fixed(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Name):
        return node.value in ("True", "False", "None")
    return isinstance(node, (cst.BaseNumber, cst.BaseString))


@dataclass(frozen=True)
class _Guard:
    """An ``if`` that asks for the rank."""

    node: cst.If
    module: Module
    is_plain: bool
    own: list[str] = field(default_factory=list)

    def claims(self) -> Iterator[Claim]:
        """That the others save too, or what is wrong with what some workers do."""
        saves: list[Callable[[], Template]] = []
        for statement in _statements(self.node.body):
            copy = self.saved(statement)
            if copy is not None:
                saves.append(copy)
            elif not self.is_harmless(statement):
                yield Claim(self.node.test, "blocked", BY_SOME, at=statement)
        if self.node.orelse is not None and not self.is_harmless(self.node.orelse):
            yield Claim(self.node.test, "blocked", BY_SOME, at=self.node.orelse)
        if saves:
            yield self.saved_by_all([save() for save in saves])

    def saved_by_all(self, saves: Sequence[Template]) -> Claim:
        index = self.module.index
        parts = {name: part for save in saves for name, part in save.parts.items()}
        read = {name for part in parts.values() for name in _names(part)}
        is_alone = self.node.orelse is None and not isinstance(index.parent(self.node), (cst.If, cst.Else))
        if not (self.is_plain and is_alone) or read & set(self.own):
            return Claim(self.node.test, "blocked", SAVED_BY_SOME)
        text = "".join(f"\n    {save.text}" for save in saves)
        edit = Insert(self.node, "after", expression(f"else:{text}", **parts))
        return Claim(self.node.test, "exact", COLLECTIVE, (edit,), ("scratch_path",))

    def saved(self, statement: cst.CSTNode) -> Callable[[], Template] | None:
        """How the others do what ``statement`` does to save, if it does."""
        call = statement.value if isinstance(statement, cst.Expr) else None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or self.is_of_library(call.func):
            return None
        if call.func.attr.value in SAVING:
            saving, text = call, "{call}"
        elif call.func.attr.value == "append" and len(call.args) == 1 and isinstance(call.args[0].value, cst.Call):
            saving, text = call.args[0].value, f"{self.module.source(call.func).strip()}({{call}})"
            if dotted_name(saving.func).rpartition(".")[2] != "ModelCheckpoint":
                return None
        else:
            return None
        if _path(saving) is None or any(argument.star for argument in saving.args):
            return None
        number = self.module.index.order[id(saving)]
        copied = _copied(saving, f"part_{number}_")
        return lambda: Template(text.replace("{call}", copied.text), copied.parts)

    def is_of_library(self, function: cst.Attribute) -> bool:
        """Whether a module's function is called, not an object's."""
        root = dotted_name(function).partition(".")[0]
        return any(binding.kind == "import" for binding in self.module.index.scope_of(function).lookup(root))

    def is_harmless(self, node: cst.CSTNode) -> bool:
        """Whether a statement, or an expression, leaves models alone."""
        if isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
            return self.binds_only_here(node) and self.is_harmless_value(node)
        if isinstance(node, (cst.If, cst.Else, cst.With, cst.For)):
            heads = [child for child in children_of(node) if isinstance(child, (cst.BaseExpression, cst.WithItem))]
            rest = [node.orelse] if isinstance(node, (cst.If, cst.For)) and node.orelse is not None else []
            return all(map(self.is_harmless_value, heads)) and all(
                map(self.is_harmless, [*_statements(node.body), *rest])
            )
        return isinstance(node, SIMPLE) or (isinstance(node, cst.Expr) and self.is_harmless_value(node))

    def binds_only_here(self, node: cst.Assign | cst.AugAssign | cst.AnnAssign) -> bool:
        """Whether it sets how much is shown, or a variable that nothing outside reads."""
        targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
        for target in targets:
            if not isinstance(target, cst.Name):
                return False
            self.own.append(target.value)
            uses = [r.node for r in self.module.index.references[target.value]]
            if target.value != "verbose" and not all(self.node in self.module.index.ancestors(use) for use in uses):
                return False
        return True

    def is_harmless_value(self, node: cst.CSTNode) -> bool:
        """Whether all that is called and read leaves models alone."""
        calls = (call for call in calls_within(node) if self.module.symbols.get(id(call.func)) not in NUMBERS)
        return all(map(_is_harmless_call, calls)) and not any(a in READ for a in _attributes(node))


def _copied(call: cst.Call, prefix: str) -> Template:
    """``call`` with a path of this worker's own."""
    parts: dict[str, cst.CSTNode] = {f"{prefix}function": call.func}
    texts = []
    for place, argument in enumerate(call.args):
        name = f"{prefix}{place}"
        parts[name] = argument.value
        keyword = argument.keyword.value if argument.keyword is not None else ""
        text = f"scratch_path({{{name}}})" if argument is _path(call) else f"{{{name}}}"
        texts.append(f"{keyword}={text}" if keyword else text)
    return Template(f"{{{prefix}function}}({', '.join(texts)})", parts)


def _path(call: cst.Call) -> cst.Arg | None:
    """The argument that says where to save."""
    named = (
        argument for argument in call.args if argument.keyword is not None and argument.keyword.value == "filepath"
    )
    first = call.args[0] if call.args and call.args[0].keyword is None else None
    return next(named, first)


def _is_harmless_call(call: cst.Call) -> bool:
    if isinstance(call.func, cst.Attribute):
        name, values = call.func.attr.value, [argument.value for argument in call.args]
        known = (cst.Call, cst.BaseNumber, cst.BaseString)
        return name in (*CALLED, *LOGGING) or (name == "append" and all(isinstance(v, known) for v in values))
    return dotted_name(call.func) in (*FUNCTIONS, *LOGGING)


def _statements(body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    for line in body.body:
        yield from line.body if isinstance(line, cst.SimpleStatementLine) else (line,)


def _names(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.Name):
        yield node.value
    for child in children_of(node):
        yield from _names(child)


def _attributes(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.Attribute):
        yield node.attr.value
    for child in children_of(node):
        yield from _attributes(child)
