from __future__ import annotations

from ottla.broker.groups.share_group import SharedTopic
from tests.support.consumer_groups import FakeTopics, topic_id
from tests.support.share_groups import ShareDriver

T, U = topic_id("t"), topic_id("u")


def test_two_members_share_the_partitions() -> None:
    driver = ShareDriver()
    driver.settled("a", "b")
    assert sorted(index for name in "ab" for index in driver.member(name).assigned[T]) == [0, 1]


def test_more_members_than_partitions_share_them() -> None:
    driver = ShareDriver(FakeTopics(t=1))
    driver.settled("a", "b", "c")
    assert [driver.member(name).assigned for name in "abc"] == [{T: frozenset({0})}] * 3


def test_a_changed_subscription_takes_effect_at_once() -> None:
    driver = ShareDriver(FakeTopics(t=2, u=1), assignment_interval_ms=60_000)
    driver.join("a", ("t", "u"))
    driver.initialized()
    driver.mono_ms += 60_000
    driver.beat("a", 2)
    assert driver.member("a").assigned.keys() == {T, U}
    answer = driver.beat("a", driver.member("a").epoch, topic_names=frozenset({"u"}))
    assert answer.assignment == {U: frozenset({0})}, "although the target is computed only after the interval"


def test_partitions_without_state_are_not_assigned() -> None:
    driver = ShareDriver()
    driver.join("a")
    driver.take(driver.machine.shares.mark_initialized("g", {T: frozenset({1})}, driver.now).records)
    driver.beat("a", 2)
    assert driver.member("a").assigned == {T: frozenset({1})}
    assert driver.group.partitions.initializing == {T: SharedTopic("t", frozenset({0}))}


def test_a_topic_that_does_not_exist_is_awaited() -> None:
    driver = ShareDriver(FakeTopics())
    driver.join("a")
    assert driver.last.start_offsets == {}
    driver.topics.set("t", 1)
    driver.beat("a", 2)
    assert driver.last.start_offsets == {(T, 0): -1}
