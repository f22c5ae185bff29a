from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst
import pytest

from migrator.bindings import Index, index
from migrator.edits import (
    ConflictError,
    Edit,
    Editor,
    Import,
    Insert,
    Remove,
    Replace,
    Template,
    Unwrap,
    nodes_of,
    rename,
    requote,
)
from migrator.layout import lay_out

Pick = Callable[[cst.CSTNode], bool]


def nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from nodes(child)


def find(found: Index, kind: type[cst.CSTNode], text: str) -> cst.CSTNode:
    """The first node of a kind whose code begins with ``text``."""
    same = (n for n in nodes(found.tree) if isinstance(n, kind))
    return next(n for n in same if found.tree.code_for_node(n).lstrip("( \n").startswith(text))


def edited(text: str, make: Callable[[Index], Sequence[Edit]], **renames: str) -> str:
    tree = cst.parse_module(text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text)
    found = index(tree)
    edits = make(found)
    everything = [n for s in tree.body for n in nodes(s)] + nodes_of(found, edits)
    plain = text.replace("\r\n", "\n")
    layout = lay_out(tree, plain, everything)
    newline = "\r\n" if "\r\n" in text else "\n"
    return Editor(found, layout, newline, renames).splices(edits).apply(plain)


def replace(
    kind: type[cst.CSTNode], old: str, new: str, **parts: tuple[type[cst.CSTNode], str]
) -> Callable[[Index], list[Edit]]:
    def make(found: Index) -> list[Edit]:
        names = {key: find(found, *place) for key, place in parts.items()}
        return [Replace(find(found, kind, old), Template(new, names))]

    return make


@pytest.mark.parametrize(
    ("text", "kind", "old", "new", "after"),
    [
        ("a = f(x)\n", cst.Call, "f", "g()", "a = g()\n"),
        ("a = (f(x))\n", cst.Call, "f", "g()", "a = (g())\n"),
        ("a = f(x).b\n", cst.Call, "f", "c if d else e", "a = (c if d else e).b\n"),
        ("a = -f(x)\n", cst.Call, "f", "not b", "a = -(not b)\n"),
        ("g(f(x), 1)\n", cst.Call, "f", "c if d else e", "g(c if d else e, 1)\n"),
        ("a = [f(x)]\n", cst.Call, "f", "lambda: 1", "a = [lambda: 1]\n"),
        ("a = f(  # c\n    x,  # d\n)\n", cst.Call, "f", "g()", "# c\n# d\na = g()\n"),
        ("if f(x):  # c\n    pass\n", cst.Call, "f", "g()", "if g():  # c\n    pass\n"),
        ("if a:\n    b = f(\n        x,  # c\n    )\n", cst.Call, "f", "g", "if a:\n    # c\n    b = g\n"),
        ('a = f"{f(x)}"\n', cst.Call, "f", 'g("k")', "a = f\"{g('k')}\"\n"),
        ("a = f'{f(x)}'\n", cst.Call, "f", 'g("k")', "a = f'{g(\"k\")}'\n"),
        ("a = f(x)", cst.Call, "f", "g()", "a = g()"),
        ("é = 'ü', f(x)\n", cst.Call, "f", "g()", "é = 'ü', g()\n"),
    ],
)
def test_replace(text: str, kind: type[cst.CSTNode], old: str, new: str, after: str) -> None:
    assert edited(text, replace(kind, old, new)) == after


@pytest.mark.parametrize(
    ("text", "new", "after"),
    [
        ("f(x)\n", "g({x})\n", "g(x)\n"),
        ("f((x))\n", "g({x})", "g((x))\n"),
        ("f(x if y else z)\n", "{x}.item()", "(x if y else z).item()\n"),
        ("f(x if y else z)\n", "g({x}, 1)", "g(x if y else z, 1)\n"),
        ("f(x + 1)\n", "{x} * 2", "(x + 1) * 2\n"),
        ("f(x.y[0])\n", "{x}.item()", "x.y[0].item()\n"),
        ("f(\n    x,  # c\n    1,\n)\n", "g({x})", "# c\ng(x)\n"),
        ("f(x  # c\n  + 1)\n", "g({x})", "g(x  # c\n  + 1)\n"),
        ("f(x)\n", "{{x}} {y}", "{x} {y}\n"),
    ],
)
def test_parts_of_the_original_stay(text: str, new: str, after: str) -> None:
    def make(found: Index) -> list[Edit]:
        call = find(found, cst.Call, "f")
        return [Replace(call, Template(new.strip(), {"x": call.args[0].value}))]

    assert edited(text, make) == after


def test_nested_replacements_compose() -> None:
    def make(found: Index) -> list[Edit]:
        outer = find(found, cst.Call, "f")
        inner = find(found, cst.Call, "g")
        name = find(found, cst.Name, "x")
        return [
            Replace(name, Template("y")),
            Replace(outer, Template("F({a})", {"a": outer.args[0].value})),
            Replace(inner, Template("{b} or G", {"b": inner.args[0].value})),
        ]

    assert edited("a = f(g(x))\n", make) == "a = F(y or G)\n"


def test_an_edit_inside_what_goes_is_without_effect() -> None:
    def make(found: Index) -> list[Edit]:
        return [
            Replace(find(found, cst.Call, "f"), Template("F()")),
            Replace(find(found, cst.Name, "x"), Template("y")),
        ]

    assert edited("a = f(x)\n", make) == "a = F()\n"


def test_two_edits_of_one_place_conflict() -> None:
    def make(found: Index) -> list[Edit]:
        call = find(found, cst.Call, "f")
        return [Replace(call, Template("a")), Replace(call, Template("b"))]

    with pytest.raises(ConflictError):
        edited("f(x)\n", make)


def remove(*texts: str) -> Callable[[Index], list[Edit]]:
    kinds = (cst.BaseSmallStatement, cst.BaseCompoundStatement)
    return lambda found: [Remove(find(found, kinds, text)) for text in texts]


@pytest.mark.parametrize(
    ("text", "gone", "after"),
    [
        ("a\nb\nc\n", ["b"], "a\nc\n"),
        ("a\nb", ["b"], "a\n"),
        ("a\n\nb\n\nc\n", ["b"], "a\n\nc\n"),
        ("a\nb\n\nc\n", ["b"], "a\n\nc\n"),
        ("a; b; c\n", ["b"], "a; c\n"),
        ("a; b\n", ["b"], "a\n"),
        ("a; b\n", ["a"], "b\n"),
        ("if x:\n    a\n", ["a"], ""),
        ("if x and y.z > 1:\n    a\n    b\nc\n", ["a", "b"], "c\n"),
        ("if x:\n    if y:\n        a\nc\n", ["a"], "c\n"),
        ("def f():\n    if y:\n        a\nc\n", ["a"], "def f():\n    pass\nc\n"),
        ("if x():\n    a\n    b\n", ["a", "b"], "if x():\n    pass\n"),
        ("if x:\n    a\nelif y:\n    b\n", ["b"], "if x:\n    a\n"),
        ("try:\n    a\nexcept E:\n    print(1)\nc\n", ["a"], "c\n"),
        ("try:\n    a\nexcept E:\n    x = 1\n", ["a"], "try:\n    pass\nexcept E:\n    x = 1\n"),
        ("if x: a\n", ["a"], "if x: pass\n"),
        ("if x: a; b\n", ["b"], "if x: a\n"),
        ("if x:\n\ta\nelse:\n\tb\n", ["a"], "if x:\n\tpass\nelse:\n\tb\n"),
        ("a\nb  # c\nd\n", ["b"], "a\n# c\nd\n"),
        ("a\n# c\nb\nd\n", ["b"], "a\n# c\nd\n"),
        ("a\nif x:\n    b  # c\nd\n", ["if x"], "a\n# c\nd\n"),
        ("f(\n  # c\n  x)\na\n", ["f("], "# c\na\n"),
        ("def g():\n    a\n\n\nb\n", ["a"], "def g():\n    pass\n\n\nb\n"),
        ("a\n@d  # c\ndef f():\n    b\ne\n", ["@d"], "a\n# c\ne\n"),
        ("if x:\n    @d\n    class C:\n        b\ne\n", ["@d"], "e\n"),
        ("if x():\n    @d\n    class C:\n        b\ne\n", ["@d"], "if x():\n    pass\ne\n"),
        ("class C:\n    '''d'''\n    a\n", ["a"], "class C:\n    '''d'''\n"),
    ],
)
def test_remove(text: str, gone: list[str], after: str) -> None:
    assert edited(text, remove(*gone)) == after


@pytest.mark.parametrize(
    ("text", "kind", "new", "after"),
    [
        ("if a:\n    b\n", cst.Name, "c >= 0", "if c >= 0:\n    b\n"),
        ("while a:\n    b\n", cst.Name, "c >= 0", "while c >= 0:\n    b\n"),
        ("a and b\n", cst.Name, "c >= 0", "c >= 0 and b\n"),
        ("a and b\n", cst.Name, "c or d", "(c or d) and b\n"),
        ("not a\n", cst.Name, "c >= 0", "not (c >= 0)\n"),
        ("if a.b:\n    b\n", cst.Name, "c >= 0", "if (c >= 0).b:\n    b\n"),
    ],
)
def test_parentheses_stand_where_they_must(text: str, kind: type[cst.CSTNode], new: str, after: str) -> None:
    assert edited(text, replace(kind, "a", new)) == after


def test_removing_twice_is_removing_once() -> None:
    assert edited("a\nb\n", remove("a", "a")) == "b\n"


def insert(at: str, where: str, new: str) -> Callable[[Index], list[Edit]]:
    kinds = (cst.BaseSmallStatement, cst.BaseCompoundStatement)
    return lambda found: [Insert(find(found, kinds, at), where, Template(new))]


@pytest.mark.parametrize(
    ("text", "at", "where", "new", "after"),
    [
        ("a\nb\n", "b", "before", "c", "a\nc\nb\n"),
        ("a\nb\n", "a", "after", "c", "a\nc\nb\n"),
        ("a", "a", "after", "c", "a\nc"),
        ("a; b\n", "b", "before", "c", "a; c; b\n"),
        ("a; b\n", "a", "after", "c", "a; c; b\n"),
        ("if x: a\n", "a", "after", "c", "if x: a; c\n"),
        ("if x:\n    a  # d\n", "a", "after", "c", "if x:\n    a  # d\n    c\n"),
        ("if x:\n\ta\n", "a", "after", "if y:\n    c", "if x:\n\ta\n\tif y:\n\t\tc\n"),
        ("# d\na\n", "a", "before", "c", "# d\nc\na\n"),
        ("if x:\n  a\nb\n", "if x", "after", "c", "if x:\n  a\nc\nb\n"),
        ("@d\ndef f(): pass\n", "@d", "before", "c", "c\n@d\ndef f(): pass\n"),
        ("a\n", "a", "before", "if y:\n    c\n\n    d", "if y:\n    c\n\n    d\na\n"),
    ],
)
def test_insert(text: str, at: str, where: str, new: str, after: str) -> None:
    assert edited(text, insert(at, where, new)) == after


def test_inserting_into_a_block_that_is_emptied_needs_no_pass() -> None:
    def make(found: Index) -> list[Edit]:
        [statement] = [n for n in nodes(found.tree) if isinstance(n, cst.Expr)]
        return [Remove(statement), Insert(statement, "after", Template("b"))]

    assert edited("if x:\n    a\n", make) == "if x:\n    b\n"


def unwrap(*texts: str) -> Callable[[Index], list[Edit]]:
    return lambda found: [Unwrap(find(found, cst.WithItem, text)) for text in texts]


@pytest.mark.parametrize(
    ("text", "gone", "after"),
    [
        ("with a:\n    b\n", ["a"], "b\n"),
        ("with a:\n    b\n    c\nd\n", ["a"], "b\nc\nd\n"),
        ("with a, b:\n    c\n", ["a"], "with b:\n    c\n"),
        ("with a, b:\n    c\n", ["b"], "with a:\n    c\n"),
        ("with a: b; c\n", ["a"], "b; c\n"),
        ("if x:\n\twith a:\n\t\tb\n\tc\n", ["a"], "if x:\n\tb\n\tc\n"),
        ("with a:  # c\n    # d\n    b  # e\n\n    f\n", ["a"], "# c\n# d\nb  # e\n\nf\n"),
        ("with a:\n    b = '''\n    c'''\n", ["a"], "b = '''\n    c'''\n"),
        ("with a:\n    b(\n        c,\n    )\n", ["a"], "b(\n    c,\n)\n"),
        ("with a:\n    with b:\n        c\n", ["b"], "with a:\n    c\n"),
        ("with a:\n    if b:\n        c\n    else:\n        d\n", ["a"], "if b:\n    c\nelse:\n    d\n"),
    ],
)
def test_unwrap(text: str, gone: list[str], after: str) -> None:
    assert edited(text, unwrap(*gone)) == after


@pytest.mark.parametrize(
    ("text", "names", "after"),
    [
        ("a.b(a, c.a)", {"a": "x"}, "x.b(x, c.a)"),
        ("ab a_ a", {"a": "x"}, "ab a_ x"),
        ("a b", {"a": "b", "b": "a"}, "b a"),
        ("a", {}, "a"),
    ],
)
def test_rename(text: str, names: dict[str, str], after: str) -> None:
    assert rename(text, names) == after


@pytest.mark.parametrize(("quote", "after"), [('"', "f('k')"), ("'", 'f("k")'), ('"""', 'f("k")'), ("", 'f("k")')])
def test_requote(quote: str, after: str) -> None:
    assert requote('f("k")', quote) == after


@pytest.mark.parametrize(
    ("item", "local", "symbol", "line"),
    [
        (Import("os"), "os", "os", "import os"),
        (Import("a.b"), "a", "a", "import a.b"),
        (Import("a.b", alias="c"), "c", "a.b", "import a.b as c"),
        (Import("a.b", "c"), "c", "a.b.c", "from a.b import c"),
        (Import("a.b", "c", "d"), "d", "a.b.c", "from a.b import c as d"),
    ],
)
def test_import(item: Import, local: str, symbol: str, line: str) -> None:
    assert (item.local, item.symbol, item.statement(item.local)) == (local, symbol, line)


def test_an_import_under_another_name() -> None:
    assert Import("os").statement("os_") == "import os as os_"
    assert Import("a", "b").statement("c") == "from a import b as c"
