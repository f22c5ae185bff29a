"""The search for the edits that are to blame."""

from __future__ import annotations

import pytest

from migrator.parity.bisection import Answer, blame


def one_by_one(count: int) -> list[list[int]]:
    return [[number] for number in range(count)]


@pytest.mark.parametrize("guilty", [{3}, {0}, {9}, {2, 3}, {0, 9}, {1, 4, 7}, set(range(10))])
def test_the_smallest_set_is_found(guilty: set[int]) -> None:
    found = blame(one_by_one(10), lambda left_out: "equal" if guilty <= left_out else "different")
    assert set(found.edits) == guilty


def test_programs_that_cannot_run_do_not_mislead() -> None:
    def without(left_out: frozenset[int]) -> Answer:
        if (2 in left_out) != (3 in left_out):
            return "unknown"
        return "equal" if {2, 3} <= left_out else "different"

    assert set(blame(one_by_one(8), without).edits) == {2, 3}


@pytest.mark.parametrize("guilty", [{0}, {5}, {3, 4}, {1, 8}])
def test_edits_of_a_group_are_told_apart(guilty: set[int]) -> None:
    found = blame([[0, 1, 2], [3], [4, 5], [6, 7, 8]], lambda out: "equal" if guilty <= out else "different")
    assert set(found.edits) == guilty


def test_groups_are_tried_before_their_edits() -> None:
    def without(left_out: frozenset[int]) -> Answer:
        broken = len({0, 1, 2} & left_out) in (1, 2)
        return "unknown" if broken else "equal" if 7 in left_out else "different"

    assert blame([[0, 1, 2], [3], [4], [5], [6], [7], [8], [9]], without).tried <= 8


def test_one_of_many_takes_few_programs() -> None:
    assert blame(one_by_one(32), lambda left_out: "equal" if 21 in left_out else "different").tried <= 12


def test_nothing_is_blamed_where_all_left_out_does_not_help() -> None:
    assert blame(one_by_one(4), lambda left_out: "different").edits == ()
    assert blame([], lambda left_out: "equal").edits == ()


def test_the_number_of_programs_is_bounded() -> None:
    found = blame(one_by_one(40), lambda left_out: "equal" if len(left_out) > 30 else "different", most=20)
    assert found.tried == 20
    assert len(found.edits) > 30
