"""The search for the edits that are to blame."""

from __future__ import annotations

import pytest

from migrator.parity.bisection import Answer, blame


@pytest.mark.parametrize("guilty", [{3}, {0}, {9}, {2, 3}, {0, 9}, {1, 4, 7}, set(range(10))])
def test_the_smallest_set_is_found(guilty: set[int]) -> None:
    found = blame(range(10), lambda left_out: "equal" if guilty <= left_out else "different")
    assert set(found.edits) == guilty


def test_programs_that_cannot_run_do_not_mislead() -> None:
    def without(left_out: frozenset[int]) -> Answer:
        if (2 in left_out) != (3 in left_out):
            return "unknown"
        return "equal" if {2, 3} <= left_out else "different"

    assert set(blame(range(8), without).edits) == {2, 3}


def test_one_of_many_takes_few_programs() -> None:
    assert blame(range(32), lambda left_out: "equal" if 21 in left_out else "different").tried <= 12


def test_nothing_is_blamed_where_all_left_out_does_not_help() -> None:
    assert blame(range(4), lambda left_out: "different").edits == ()
    assert blame([], lambda left_out: "equal").edits == ()


def test_the_number_of_programs_is_bounded() -> None:
    found = blame(range(40), lambda left_out: "equal" if len(left_out) > 30 else "different", most=20)
    assert found.tried == 20
    assert len(found.edits) > 30
