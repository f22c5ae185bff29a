"""Statements, and which of them ran."""

from __future__ import annotations

from migrator.parity.exercised import changed_statements, count_exercised, executed_lines, is_exercised
from migrator.parity.statements import Lines, statement_at, statements
from migrator.parity.trace import End, Rank, Trace

SOURCE = """\
import torch

@torch.no_grad()
def step(
    x,
):
    if x:
        y = f(
            x,
        )
    else:
        y = 0
    return y

try:
    step(1)
except ValueError:
    pass
match 1:
    case 1:
        pass
"""


def trace(*lines: set[int] | None) -> Trace:
    ends = [None if each is None else End("", 1.0, {}, (), {"a.py": frozenset(each)}, False) for each in lines]
    return Trace(tuple(Rank(number, len(ends), "a.py", (), {}, end=end) for number, end in enumerate(ends)))


def test_statements() -> None:
    assert statements(SOURCE) == [
        Lines(1, 1),
        Lines(3, 6),
        Lines(7, 7),
        Lines(8, 10),
        Lines(12, 12),
        Lines(13, 13),
        Lines(15, 15),
        Lines(16, 16),
        Lines(17, 17),
        Lines(18, 18),
        Lines(19, 19),
        Lines(21, 21),
    ]
    assert statement_at(statements(SOURCE), 9) == Lines(8, 10)
    assert statement_at(statements(SOURCE), 11) == Lines(11, 11)


def test_a_statement_ran_if_one_of_its_lines_did() -> None:
    assert is_exercised(SOURCE, 10, frozenset({9}))
    assert not is_exercised(SOURCE, 12, frozenset({7, 9, 13}))


def test_lines_of_all_ranks_count() -> None:
    assert executed_lines(trace({1, 2}, {5}), "a.py") == {1, 2, 5}
    assert executed_lines(trace({1, 2}, None), "a.py") == {1, 2}
    assert executed_lines(trace({1}), "other.py") == frozenset()
    assert executed_lines(trace(None, None), "a.py") is None


def test_changed_statements() -> None:
    after = SOURCE.replace("        y = 0\n", "        y = 1\n        z = 2\n").replace(
        "            x,\n", "            x + 1,\n"
    )
    changed = changed_statements(SOURCE, after)
    assert changed == [Lines(8, 10), Lines(12, 12), Lines(13, 13)]
    assert count_exercised(changed, frozenset({8, 13})) == 2
