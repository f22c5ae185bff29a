from __future__ import annotations

import io
import tokenize
from pathlib import Path

import pytest

from migrator.verify import comment_spans, comments, problems, unbound_names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1  # one\n# two\n", ["# one", "# two"]),
        ("a = '# no'\n", []),
        ('a = """# no\n# no"""  # yes\n', ["# yes"]),
        ("a = 'it\\'s # no'  # yes\n", ["# yes"]),
        ("a = r'\\'  # no'\nb = 1  # yes\n", ["# yes"]),
        ("a = rb'''\\''' # no'''  # yes\n", ["# yes"]),
        ("a = f'{x}#'  # yes\r\nb  # more\r", ["# yes", "# more"]),
        ("a = 'b\\\n# no'  # yes\n", ["# yes"]),
        ("a = 'b\\\r\n# no'  # yes\n", ["# yes"]),
        ("a = ''  # yes\n", ["# yes"]),
        ("a = ''''# no'''  # yes\n", ["# yes"]),
        ("#!/bin/python\n", ["#!/bin/python"]),
    ],
)
def test_comment_spans(text: str, expected: list[str]) -> None:
    assert [text[span.start : span.end] for span in comment_spans(text)] == expected


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_comment_spans_are_those_of_tokenize(path: Path) -> None:
    text = path.read_text("utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    expected = [token.string for token in tokens if token.type == tokenize.COMMENT]
    assert [text[span.start : span.end] for span in comment_spans(text)] == expected


def test_comments_are_counted() -> None:
    assert comments("a  # x\nb  # x \n# y\n") == {"# x": 2, "# y": 1}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("print(a)", {"a"}),
        ("import a\nprint(a)", set()),
        ("def f():\n    return a\na = 1", set()),
        ("def f():\n    return a", {"a"}),
        ("def f():\n    global a\n    a = 1\ndef g():\n    return a", set()),
        ("def f():\n    global a\n    return a", {"a"}),
        ("class C:\n    x = 1\n    def f(self):\n        return x", {"x"}),
        ("def f():\n    import a\n    def g():\n        return a.b", set()),
        ("[y for y in x]", {"x"}),
        ("lambda q: q + r", {"r"}),
        ("print(__file__, __name__, len)", set()),
        ("try:\n    pass\nexcept E as e:\n    print(e)", {"E"}),
        ("with a as b:\n    print(b)", {"a"}),
        ("a += 1", set()),
    ],
)
def test_unbound_names(text: str, names: set[str]) -> None:
    assert unbound_names(text) == names


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("a = 1\n", "a = \n", "would not parse"),
        ("a = 1  # c\n", "a = 1\n", "would lose the comment '# c'"),
        ("a = 1  # c\n# c\n", "a = 1  # c\n", "would lose the comment"),
        ("a = 1\n", "a = b + c\n", "would use b, c without binding"),
        ("a = 1\n", "a = '\0'\n", "would not parse"),
        ("print 'python 2'\n", "print 'python 3'\n", "cannot read the file"),
        ("type = \0\n", "", "cannot read the file"),
    ],
)
def test_problems(before: str, after: str, words: str) -> None:
    [message] = problems(before, after)
    assert words in message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = 1\n", "b = 2\n"),
        ("print(a)\n", "print(a, a)\n"),
        ("a = 1  # c\n", "# c\na = '\\d'\n"),
        ("print 'python 2'\n", "print 'python 2'\n"),
    ],
)
def test_no_problems(before: str, after: str) -> None:
    assert list(problems(before, after)) == []
