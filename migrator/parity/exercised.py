"""Which edits of a migration a run exercised."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from migrator.parity.statements import Lines, docstrings, statement_at, statements
from migrator.parity.trace import Trace


def executed_lines(trace: Trace, path: str) -> frozenset[int] | None:
    """The lines of the file ``path`` that some rank executed; None where no rank says, because none came to its end."""
    ends = [rank.end for rank in trace.ranks if rank.end is not None]
    return frozenset().union(*(end.lines.get(path, frozenset()) for end in ends)) if ends else None


def is_exercised(source: str, line: int, executed: frozenset[int]) -> bool:
    """Whether the statement of ``source`` that ``line`` belongs to was executed, in part at least."""
    lines = statement_at(statements(source), line)
    return any(number in executed for number in range(lines.first, lines.last + 1))


def changed_statements(before: str, after: str) -> list[Lines]:
    """The statements of ``after`` that stand on a line which ``before`` does not have there, but for docstrings."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    stretches = [range(first + 1, last + 1) for tag, _, _, first, last in matcher.get_opcodes() if tag != "equal"]
    changed = frozenset().union(*stretches)
    idle = docstrings(after)
    executable = [each for each in statements(after) if each not in idle]
    return [each for each in executable if not changed.isdisjoint(range(each.first, each.last + 1))]


def count_exercised(changed: Sequence[Lines], executed: frozenset[int]) -> int:
    """How many of the statements were executed."""
    return sum(any(line in executed for line in range(each.first, each.last + 1)) for each in changed)
