from __future__ import annotations

import libcst as cst
import pytest

from migrator.bindings import Index, Scope, dotted_name, index


def indexed(source: str) -> Index:
    return index(cst.parse_module(source))


def kinds(scope: Scope, name: str) -> list[str]:
    return [binding.kind for binding in scope.bindings.get(name, ())]


def home(source: str, name: str = "x") -> list[str | None]:
    """The kind of scope in which each use of ``name`` is bound, in the order of the text."""
    found = indexed(source)
    homes = [reference.scope.home(name) for reference in found.references[name]]
    return [scope.kind if scope else None for scope in homes]


@pytest.mark.parametrize(
    ("source", "name", "symbol"),
    [
        ("import a", "a", "a"),
        ("import a.b", "a", "a"),
        ("import a.b as c", "c", "a.b"),
        ("from a import b", "b", "a.b"),
        ("from a import b as c", "c", "a.b"),
        ("from a.b import c", "c", "a.b.c"),
        ("from . import b", "b", ".b"),
        ("from ..a import b", "b", "..a.b"),
        ("import x, a.b as c, y", "c", "a.b"),
    ],
)
def test_imports(source: str, name: str, symbol: str) -> None:
    bindings = indexed(source).scope.bindings[name]
    assert [(b.kind, b.symbol) for b in bindings] == [("import", symbol)]


def test_star_imports_are_kept_apart() -> None:
    found = indexed("from a.b import *\nfrom . import *\n")
    assert [name for _, name in found.stars] == ["a.b", "."]
    assert not found.scope.bindings


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("x = 1", "assignment"),
        ("x: int = 1", "assignment"),
        ("x: int", "assignment"),
        ("x += 1", "other"),
        ("(x := 1)", "assignment"),
        ("for x in y: pass", "other"),
        ("with y as x: pass", "other"),
        ("try:\n    pass\nexcept E as x:\n    pass", "other"),
        ("def x(): pass", "definition"),
        ("class x: pass", "definition"),
        ("import x", "import"),
        ("x, y = 1, 2", "assignment"),
        ("x, y = z", "other"),
        ("[x, *y] = z", "other"),
        ("match y:\n    case [x, *_]: pass", "other"),
        ("match y:\n    case {'a': 1, **x}: pass", "other"),
        ("match y:\n    case C() as x: pass", "other"),
        ("[(x := n) for n in y]", "assignment"),
    ],
)
def test_what_binds_a_name(source: str, kind: str) -> None:
    assert kinds(indexed(source).scope, "x") == [kind]


@pytest.mark.parametrize(
    ("source", "value"),
    [("x = a", "a"), ("x = y = a", "a"), ("x, y = a, b", "a"), ("(x := a)", "a"), ("x: int = a", "a")],
)
def test_the_value_of_a_binding(source: str, value: str) -> None:
    [binding] = indexed(source).scope.bindings["x"]
    assert isinstance(binding.value, cst.Name)
    assert binding.value.value == value


@pytest.mark.parametrize(
    ("source", "homes"),
    [
        ("x = 1\nprint(x)", ["module"]),
        ("print(x)", [None]),
        ("x = 1\ndef f():\n    return x", ["module"]),
        ("x = 1\ndef f():\n    print(x)\n    x = 2", ["function"]),
        ("x = 1\ndef f(x):\n    return x", ["function"]),
        ("x = 1\ndef f(a=x):\n    x = 2", ["module"]),
        ("x = 1\ndef f() -> x: pass", ["module"]),
        ("x = 1\n@x\ndef f(x): pass", ["module"]),
        ("x = 1\nclass C:\n    x = 2\n    y = x", ["class"]),
        ("x = 1\nclass C:\n    x = 2\n    def f(self):\n        return x", ["module"]),
        ("x = 1\nclass C(x):\n    x = 2", ["module"]),
        ("x = 1\n[x for x in x]", ["module", "comprehension"]),
        ("x = 1\n[y for y in x]", ["module"]),
        ("x = 1\n[x for y in z for x in y if x]", ["comprehension", "comprehension"]),
        ("x = 1\n{x: x for x in y}", ["comprehension", "comprehension"]),
        ("x = 1\nf = lambda x: x", ["function"]),
        ("x = 1\nf = lambda y=x: x", ["module", "module"]),
        ("x = 1\ndef f():\n    global x\n    x = 2\n    return x", ["module"]),
        ("def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n        return x", ["function"]),
        ("def f():\n    global x\n    return x", [None]),
        ("def f():\n    x = 1\n    def g():\n        def h():\n            return x", ["function"]),
        ("def f(*, a, x): return x", ["function"]),
        ("def f(x, /): return x", ["function"]),
        ("def f(*x): return x", ["function"]),
        ("def f(**x): return x", ["function"]),
        ("x += 1", ["module"]),
        ("import x\ndel x", ["module"]),
        ("f(x=1)", []),
        ("a.x", []),
    ],
)
def test_scopes(source: str, homes: list[str | None]) -> None:
    assert home(source) == homes


def test_a_global_binding_of_a_function_is_the_modules() -> None:
    found = indexed("def f():\n    global x\n    import x\n")
    assert kinds(found.scope, "x") == ["import"]


def test_a_nonlocal_binding_is_the_outer_functions() -> None:
    found = indexed("def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n")
    outer = next(scope for scope in found.scopes.values() if scope.node is found.functions[0])
    assert kinds(outer, "x") == ["assignment", "assignment"]


def test_lookup_and_module() -> None:
    found = indexed("x = 1\ndef f():\n    return x, y\n")
    [reference] = found.references["x"]
    assert [b.kind for b in reference.scope.lookup("x")] == ["assignment"]
    assert list(reference.scope.lookup("y")) == []
    assert reference.scope.module is found.scope


def test_parents_order_attributes_and_strings() -> None:
    found = indexed("a = b.c.d('text')\n")
    [outer] = found.attributes["d"]
    [inner] = found.attributes["c"]
    assert found.parent(inner) is outer
    assert found.before(outer, inner)
    assert [s.raw_value for s in found.strings] == ["text"]
    assert found.tree in list(found.ancestors(inner))
    assert found.parent(found.tree) is None
    assert found.names == {"a", "b"}


def test_scope_of_a_node() -> None:
    found = indexed("def f():\n    return [n for n in x]\n")
    [use] = found.references["n"]
    [iterable] = found.references["x"]
    assert found.scope_of(use.node).kind == "comprehension"
    assert iterable.scope.kind == "function"
    assert found.scope_of(found.functions[0]).kind == "function"


@pytest.mark.parametrize(("source", "name"), [("a", "a"), ("a.b.c", "a.b.c"), ("a().b", ""), ("a[0]", ""), ("1", "")])
def test_dotted_name(source: str, name: str) -> None:
    assert dotted_name(cst.parse_expression(source)) == name


def test_every_node_that_is_visited_has_an_order() -> None:
    source = (
        "import a\nclass C(a.B, metaclass=M):\n    x: int = [y for y in z]\n"
        "    def f(self, *b, c=1, **d): return {**d}\n"
    )
    found = indexed(source)
    assert len(set(found.order.values())) == len(found.order)
    assert set(found.parents) <= set(found.order)
