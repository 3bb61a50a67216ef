from __future__ import annotations

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.deadlines import DeadlineKind, Deadlines
from ottla.broker.groups.states import Now
from ottla.broker.groups.streams_group import StreamsGroup
from ottla.broker.groups.streams_group_update import StreamsConfig, StreamsGroupUpdate
from ottla.broker.groups.streams_member import StreamsMember, StreamsMemberState
from ottla.broker.streams.tasks import TaskSet
from ottla.broker.streams.topology import topology_value
from tests.support.consumer_groups import FakeTopics
from tests.support.streams_groups import topology


def update_of(group: StreamsGroup, topics: FakeTopics | None = None) -> StreamsGroupUpdate:
    return StreamsGroupUpdate(group, Deadlines(), topics or FakeTopics(t=2), StreamsConfig(), Now(0, 10_000))


def test_a_topology_is_checked_again_only_when_the_topics_have_changed() -> None:
    group = StreamsGroup("g")
    first = update_of(group)
    first.put_topology(topology_value(topology()))
    first.check_topology()
    for record in first.records:
        group.apply(record.key, record.value)
    group.metadata_hash = update_of(group).check_topology()
    checked, topics = group.configured, FakeTopics(t=2)
    assert update_of(group, topics).check_topology() == group.metadata_hash
    assert group.configured is checked
    topics.set("t", 3)
    assert update_of(group, topics).check_topology() != group.metadata_hash
    assert group.configured is not checked


def test_a_group_without_a_topology_cannot_be_checked() -> None:
    update = update_of(StreamsGroup("g"))
    with pytest.raises(Rejected, match="topology is null"):
        update.check_topology()
    with pytest.raises(Rejected):
        _ = update.configured


def test_a_member_without_changes_is_not_written() -> None:
    update, member = update_of(StreamsGroup("g")), StreamsMember(member_id="m", process_id="p")
    assert update.put_member(StreamsMember(member_id="m"), member)
    assert not update.put_member(update.group.members["m"], update.group.members["m"])
    assert len(update.records) == 1


def test_the_epoch_after_a_removal_keeps_the_validated_topology() -> None:
    group = StreamsGroup("g")
    group.validated_topology_epoch, group.metadata_hash, group.assignment_configs = 4, 9, {"num.standby.replicas": "1"}
    update = update_of(group)
    update.bump_after_leave()
    written = update.records[0].value
    assert written == update.epoch_value(2, 9)
    assert (update.group.validated_topology_epoch, update.group.assignment_configs) == (4, {"num.standby.replicas": "1"})


def test_a_member_gets_no_tasks_before_the_topology_is_valid() -> None:
    group = StreamsGroup("g")
    update = update_of(group, FakeTopics())
    update.put_topology(topology_value(topology()))
    update.put_member(StreamsMember(member_id="m"), StreamsMember(member_id="m", process_id="p"))
    update.check_topology()
    assert update.assign() == {"m": TaskSet()}


def test_only_a_member_with_tasks_to_revoke_is_watched() -> None:
    update = update_of(StreamsGroup("g"))
    revoking = StreamsMember(member_id="m", rebalance_timeout_ms=7_000, state=StreamsMemberState.UNREVOKED_TASKS)
    update.watch_revocation(revoking)
    assert update.deadlines.get(DeadlineKind.REBALANCE, "m") == 7_000
    update.watch_revocation(StreamsMember(member_id="m"))
    assert update.deadlines.get(DeadlineKind.REBALANCE, "m") is None
