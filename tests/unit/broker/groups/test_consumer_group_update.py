from __future__ import annotations

from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_group_update import ConsumerConfig, ConsumerGroupUpdate
from ottla.broker.groups.consumer_member import ConsumerMember
from ottla.broker.groups.deadlines import DeadlineKind, Deadlines
from ottla.broker.groups.states import Now
from ottla.broker.groups.topics_view import every_topic
from ottla.protocol import consumer_group_log as records
from tests.support.consumer_groups import FakeTopics, GroupsDriver, facts_of, topic_id


def update_on(group: ConsumerGroup, topics: FakeTopics | None = None) -> ConsumerGroupUpdate:
    return ConsumerGroupUpdate(group, Deadlines(), topics or FakeTopics(t=4), ConsumerConfig(), Now(0, 0))


def test_the_group_is_untouched_until_the_records_are_applied_to_it() -> None:
    group = ConsumerGroup("g")
    update = update_on(group)
    member = ConsumerMember(member_id="a", topic_names=frozenset({"t"}), rebalance_timeout_ms=5)
    assert update.change_member(ConsumerMember(member_id="a"), member, every_topic)
    update.maybe_compute_target()
    update.reconcile("a", {})
    assert facts_of(group) == facts_of(ConsumerGroup("g"))
    for record in update.records:
        group.apply(record.key, record.value)  # type: ignore[arg-type]  # an update writes records of consumer groups only
    assert facts_of(group) == facts_of(update.group)


def test_a_member_that_did_not_change_is_not_written() -> None:
    driver = GroupsDriver()
    driver.join("a")
    update = update_on(driver.group, driver.topics)
    assert not update.change_member(driver.member("a"), driver.member("a"), every_topic)
    update.maybe_compute_target()
    update.reconcile("a", None)
    assert update.records == []
    assert update.group is driver.group


def test_a_metadata_check_without_changes_is_remembered() -> None:
    driver = GroupsDriver()
    driver.join("a")
    driver.topics.set("other", 1)
    assert driver.group.topics_version != driver.topics.version
    driver.beat("a", 2)
    assert driver.group.topics_version == driver.topics.version


def test_only_changed_targets_are_written() -> None:
    driver = GroupsDriver()
    driver.join("a")
    driver.join("b")
    keeps = driver.beat("a", 2).assignment
    driver.beat("a", 2, owned=keeps)
    driver.beat("b", 3)
    written = len(driver.log)
    driver.join("c", ("nowhere",))
    keys = [key for key, _ in driver.log[written:]]
    targets = [key for key in keys if key.startswith(records.TARGET_MEMBER.to_bytes(2, "big"))]
    assert len(targets) == 1


def test_a_session_has_the_configured_timeout() -> None:
    update = update_on(ConsumerGroup("g"))
    update.keep_session(ConsumerMember(member_id="a"))
    assert update.deadlines.get(DeadlineKind.SESSION, "a") == ConsumerConfig().session_timeout_ms


def test_a_replaced_static_members_target_and_partitions_are_kept() -> None:
    driver = GroupsDriver()
    driver.join("a", instance_id="i")
    update = update_on(driver.group, driver.topics)
    update.replace_member(driver.member("a"), "b")
    assert set(update.group.members) == {"b"}
    assert update.group.target("b") == driver.group.target("a")
    assert update.group.holder(topic_id("t"), 0) == "b"
