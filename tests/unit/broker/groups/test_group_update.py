from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_group_update import ConsumerConfig, ConsumerGroupUpdate
from ottla.broker.groups.consumer_member import ConsumerMember
from ottla.broker.groups.deadlines import DeadlineKind, Deadlines
from ottla.broker.groups.share_group import ShareGroup, ShareMember
from ottla.broker.groups.share_group_update import ShareConfig, ShareGroupUpdate
from ottla.broker.groups.states import Now
from ottla.broker.groups.streams_group import StreamsGroup
from ottla.broker.groups.streams_group_update import StreamsConfig, StreamsGroupUpdate
from ottla.broker.groups.streams_member import StreamsMember
from ottla.broker.streams.topology import topology_value
from ottla.protocol.streams_group_log import StreamsGroupTopologyKey
from tests.support.consumer_groups import FakeTopics
from tests.support.streams_groups import topology

MakeUpdate = Callable[..., Any]


def consumer_update(**config: Any) -> ConsumerGroupUpdate:
    group = ConsumerGroup("g")
    group.members["m"] = ConsumerMember(member_id="m", topic_names=frozenset({"t"}))
    return ConsumerGroupUpdate(group, Deadlines(), FakeTopics(t=2), ConsumerConfig(**config), Now(0, 10_000))


def share_update(**config: Any) -> ShareGroupUpdate:
    group = ShareGroup("g")
    group.members["m"] = ShareMember(member_id="m", topic_names=frozenset({"t"}))
    return ShareGroupUpdate(group, Deadlines(), FakeTopics(t=2), ShareConfig(**config), Now(0, 10_000))


def streams_update(**config: Any) -> StreamsGroupUpdate:
    group = StreamsGroup("g")
    group.members["m"] = StreamsMember(member_id="m")
    group.apply(StreamsGroupTopologyKey("g"), topology_value(topology()))
    update = StreamsGroupUpdate(group, Deadlines(), FakeTopics(t=2), StreamsConfig(**config), Now(0, 10_000))
    update.check_topology()
    return update


ALL = pytest.mark.parametrize("make", [consumer_update, share_update, streams_update])
SUBSCRIBED = pytest.mark.parametrize("make", [consumer_update, share_update])


@ALL
def test_the_group_changes_only_by_its_records(make: MakeUpdate) -> None:
    update = make()
    group = update.group
    update.put_epoch(9, 1)
    assert (update.group.epoch, group.epoch) == (9, 1)
    for record in update.records:
        group.apply(record.key, record.value)
    assert group.epoch == 9


@SUBSCRIBED
def test_changed_topics_bump_the_epoch_and_unchanged_ones_do_not(make: MakeUpdate) -> None:
    update = make()
    update.refresh(subscriptions_changed=False)
    assert update.group.epoch == 2, "the hash of the topics was unknown"
    count = len(update.records)
    update.refresh(subscriptions_changed=False)
    assert len(update.records) == count
    update.topics.set("t", 3)
    update.refresh(subscriptions_changed=False)
    assert update.group.epoch == 3


@ALL
def test_the_target_is_computed_once_for_an_epoch(make: MakeUpdate) -> None:
    update = make()
    update.put_epoch(2, 0)
    update.maybe_compute_target()
    assert (update.group.assignment_epoch, update.group.assignment_timestamp_ms) == (2, 10_000)
    count = len(update.records)
    update.maybe_compute_target()
    assert len(update.records) == count


@ALL
@pytest.mark.parametrize(("since_ms", "epoch"), [(999, 2), (1_000, 3)])
def test_the_next_target_waits_for_the_interval(make: MakeUpdate, since_ms: int, epoch: int) -> None:
    update = make(assignment_interval_ms=1_000)
    update.put_epoch(2, 0)
    update.maybe_compute_target()
    update.put_epoch(3, 0)
    update.now = Now(0, 10_000 + since_ms)
    assert update.next_epoch == epoch


@ALL
def test_a_removed_member_leaves_three_tombstones(make: MakeUpdate) -> None:
    update = make()
    update.remove_member("m")
    assert [record.value for record in update.records] == [None] * 3
    assert update.group.is_empty


@ALL
@pytest.mark.parametrize(("assigns_empty", "assigned"), [(False, 1), (True, 2)])
def test_the_assignment_of_a_group_that_becomes_empty_gets_its_epoch_since_4_4(
    make: MakeUpdate,
    assigns_empty: bool,
    assigned: int,
) -> None:
    update = make(assigns_empty=assigns_empty)
    update.remove_member("m")
    update.bump_after_leave()
    assert (update.group.epoch, update.group.assignment_epoch) == (2, assigned)


@ALL
def test_a_session_ends_after_its_timeout(make: MakeUpdate) -> None:
    update = make()
    update.start_session("m", 7_000)
    assert update.deadlines.get(DeadlineKind.SESSION, "m") == 7_000
