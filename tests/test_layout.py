from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import pytest

from migrator.layout import Layout, RoundTripError, Span, lay_out, line_starts


def nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from nodes(child)


def laid_out(text: str) -> tuple[cst.Module, Layout]:
    tree = cst.parse_module(text.replace("\r\n", "\0").replace("\r", "\n").replace("\0", "\r\n"))
    return tree, lay_out(tree, text, list(nodes(tree)))


def shown(text: str, kind: type[cst.CSTNode]) -> list[str]:
    tree, layout = laid_out(text)
    return [text[s.start : s.end] for s in (layout.span(n) for n in nodes(tree) if isinstance(n, kind))]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("a = f(x)\n", cst.Call, ["f(x)"]),
        ("a = (f)(x)\n", cst.Call, ["(f)(x)"]),
        ("a = ( f(x) )\n", cst.Call, ["f(x)"]),
        ("# c\na = 1\n", cst.Assign, ["a = 1"]),
        ("if a:\n    # c\n    b = 1  # d\n", cst.Assign, ["b = 1"]),
        ("é = 'ü'; b = 1\n", cst.Assign, ["é = 'ü'", "b = 1"]),
        ("a = 1\r\nb = 2\r\n", cst.Assign, ["a = 1", "b = 2"]),
        ("a = 1\rb = 2\n", cst.Assign, ["a = 1", "b = 2"]),
        ("\fa = 1\n\f\nb = 2\n", cst.Assign, ["a = 1", "b = 2"]),
        ("def f():\n    a = 1\n\f    b = 2\n", cst.Assign, ["a = 1", "b = 2"]),
        ("with a, b as c:\n    pass\n", cst.WithItem, ["a", "b as c"]),
        ("import a, b as c\n", cst.ImportAlias, ["a", "b as c"]),
        ("if a: b = 1; c = 2", cst.Assign, ["b = 1", "c = 2"]),
        ("x = f'{a!r:>{b}}'\n", cst.Name, ["x", "a", "b"]),
    ],
)
def test_spans(text: str, kind: type[cst.CSTNode], expected: list[str]) -> None:
    assert shown(text, kind) == expected


def test_every_span_of_an_expression_parses_to_it() -> None:
    text = "a = [f(x, *y, k=(1 + 2) * 3) for x in g if not x]\nb = lambda q: {'k': -q, **r}\n"
    tree, layout = laid_out(text)
    expressions = [n for n in nodes(tree) if isinstance(n, cst.BaseExpression)]
    assert len(expressions) > 20
    for node in expressions:
        span = layout.outer_span(node)
        assert cst.parse_expression(text[span.start : span.end]).deep_equals(node)


def test_outer_span_holds_parentheses_and_leading_comments() -> None:
    text = "# c\na = ((f(x)))\n"
    tree, layout = laid_out(text)
    call = next(n for n in nodes(tree) if isinstance(n, cst.Call))
    span = layout.outer_span(call)
    assert text[span.start : span.end] == "((f(x)))"
    line = layout.outer_span(tree.body[0])
    assert text[line.start : line.end] == "a = ((f(x)))\n"
    second = lay_out(tree := cst.parse_module("a\n" + text), "a\n" + text, [tree.body[1]]).outer_span(tree.body[1])
    assert ("a\n" + text)[second.start : second.end] == "# c\na = ((f(x)))\n"


@pytest.mark.parametrize(
    ("text", "starts"),
    [("", (0,)), ("a\nb", (0, 2)), ("a\r\nb\rc\n", (0, 3, 5, 7)), ("\n\n", (0, 1, 2)), ("a\fb\x0bc", (0,))],
)
def test_line_starts(text: str, starts: tuple[int, ...]) -> None:
    assert line_starts(text) == starts


def test_lines_and_positions() -> None:
    text = "if a:\r\n\t b = 1\r\nc = 2"
    _, layout = laid_out(text)
    place = text.index("b")
    assert layout.position(place) == (2, 3)
    assert layout.indentation(place) == "\t "
    assert text[layout.line_start(place) : layout.line_end(place)] == "\t b = 1\r\n"
    assert layout.line_end(len(text) - 1) == len(text)


def test_levels_are_the_pieces_of_each_lines_indentation() -> None:
    text = "if a:\n  if b:\n      c = 1\n\n      d = 2\n"
    _, layout = laid_out(text)
    found = [[text[p.start : p.end] for p in pieces] for pieces in layout.levels(Span(0, len(text)))]
    assert found == [["  "], ["  ", "    "], ["  ", "    "]]


def test_only_form_feeds_may_differ() -> None:
    tree = cst.parse_module("a = 1\n")
    assert lay_out(tree, "\fa = 1\n", [tree]).spans
    with pytest.raises(RoundTripError):
        lay_out(tree, "a = 2\n", [])


@pytest.mark.parametrize(("inner", "held"), [(Span(1, 2), True), (Span(0, 3), True), (Span(0, 4), False)])
def test_span_holds(inner: Span, held: bool) -> None:
    assert Span(0, 3).holds(inner) is held
