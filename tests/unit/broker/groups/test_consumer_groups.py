from __future__ import annotations

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.coordinator import Commit, OffsetToCommit
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import GroupsDriver, facts_of


def test_a_loaded_group_equals_the_original() -> None:
    driver = GroupsDriver()
    driver.join("a", (), topic_regex="t.*")
    driver.join("b", instance_id="i")
    driver.beat("a", 1)
    before = facts_of(driver.group)
    driver.restart()
    assert facts_of(driver.group) == before


def test_a_refused_join_leaves_no_state() -> None:
    driver = GroupsDriver()
    with pytest.raises(Rejected):
        driver.join("a", (), topic_regex="(")
    assert driver.machine.groups == {}
    assert driver.machine.consumers.deadlines == {}


def test_a_deleted_groups_deadlines_are_removed() -> None:
    driver = GroupsDriver()
    driver.join("a")
    driver.beat("a", -1)
    driver.take(driver.machine.delete_group("g").records, [])
    assert driver.machine.next_deadline("g") is None
    assert driver.machine.consumers.deadlines == {}


def test_a_consumer_group_replaced_by_a_classic_one_has_no_deadlines() -> None:
    driver = GroupsDriver()
    driver.join("a")
    driver.beat("a", -1)
    driver.joined()
    assert driver.machine.consumers.deadlines == {}


def test_only_an_empty_group_can_be_deleted() -> None:
    driver = GroupsDriver()
    driver.join("a")
    with pytest.raises(Rejected) as refused:
        driver.machine.delete_group("g")
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_topics_that_a_member_reads_are_not_deleted() -> None:
    driver = GroupsDriver()
    driver.join("a")
    commit = Commit(group_id="g", member_id="a", generation=2, offsets=[OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 1)])
    driver.take(driver.machine.commit(commit, driver.now).records, [])
    effects = driver.machine.delete_offsets("g", [("t", [0]), ("u", [0])])
    assert effects.response == [("t", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC), ("u", ErrorCode.NONE)]
    assert len(effects.records) == 1


def test_an_unused_empty_group_is_deleted_with_time() -> None:
    driver = GroupsDriver()
    driver.join("a")
    assert driver.machine.expire_offsets(driver.now).records == []
    driver.beat("a", -1)
    driver.take(driver.machine.expire_offsets(driver.now).records, [])
    assert driver.machine.groups == {}
