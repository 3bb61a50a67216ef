from __future__ import annotations

from client_compat.cluster_mixed.groups import Group, GroupVerdict
from client_compat.support.reading import Consumed

LOG = [Consumed(0, 0, b"a"), Consumed(0, 1, b"b"), Consumed(1, 0, b"c")]


def given(*taken: Consumed) -> GroupVerdict:
    group = Group("g", "classic", 2)
    for one in taken:
        group.take(*one)
    return group.judge(LOG)


def test_group_that_consumed_the_log_in_any_order_with_repeats_is_good() -> None:
    verdict = given(LOG[1], LOG[0], LOG[2], LOG[1])
    assert (verdict.good, verdict.given) == (True, 3)


def test_record_that_no_member_consumed_is_missed() -> None:
    verdict = given(LOG[0], LOG[2])
    assert (verdict.good, verdict.missed) == (False, 1)


def test_consumed_record_that_differs_from_the_log_is_counted_as_different() -> None:
    for wrong in (Consumed(0, 1, b"x"), Consumed(1, 1, b"x")):
        verdict = given(*LOG[:1], LOG[2], wrong)
        assert (verdict.good, verdict.different) == (False, 1)
    assert given(*LOG, Consumed(0, 0, b"x"), LOG[0]).different == 2


def test_group_that_consumed_nothing_is_not_good() -> None:
    assert not GroupVerdict().good


def test_committed_offset_behind_an_earlier_acknowledged_one_is_counted_as_backwards() -> None:
    group = Group("g", "classic", 2)
    group.acknowledged({0: 7})
    group.acknowledged({0: 5, 1: 3})
    before = list(group.committed)
    group.check_committed("java", before, {0: 7, 1: 4})
    assert (before, group.commits, group.verdict.backwards) == ([7, 3], 2, 0)
    group.check_committed("java", before, {0: 6})
    group.check_committed("java", before, {1: None})
    assert group.verdict.backwards == 2
