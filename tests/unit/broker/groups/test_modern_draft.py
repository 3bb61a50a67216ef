from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_draft import ConsumerConfig, Draft
from ottla.broker.groups.consumer_member import ConsumerMember
from ottla.broker.groups.deadlines import DeadlineKind, Deadlines
from ottla.broker.groups.share_draft import ShareConfig, ShareDraft
from ottla.broker.groups.share_group import ShareGroup, ShareMember
from ottla.broker.groups.states import Now
from ottla.broker.groups.streams_draft import StreamsConfig, StreamsDraft
from ottla.broker.groups.streams_group import StreamsGroup
from ottla.broker.groups.streams_member import StreamsMember
from ottla.broker.streams.topology import topology_value
from ottla.protocol.streams_group_log import StreamsGroupTopologyKey
from tests.support.consumer_groups import FakeTopics
from tests.support.streams_groups import topology

MakeDraft = Callable[..., Any]


def consumer_draft(**config: Any) -> Draft:
    group = ConsumerGroup("g")
    group.members["m"] = ConsumerMember(member_id="m", topic_names=frozenset({"t"}))
    return Draft(group, Deadlines(), FakeTopics(t=2), ConsumerConfig(**config), Now(0, 10_000))


def share_draft(**config: Any) -> ShareDraft:
    group = ShareGroup("g")
    group.members["m"] = ShareMember(member_id="m", topic_names=frozenset({"t"}))
    return ShareDraft(group, Deadlines(), FakeTopics(t=2), ShareConfig(**config), Now(0, 10_000))


def streams_draft(**config: Any) -> StreamsDraft:
    group = StreamsGroup("g")
    group.members["m"] = StreamsMember(member_id="m")
    group.apply(StreamsGroupTopologyKey("g"), topology_value(topology()))
    draft = StreamsDraft(group, Deadlines(), FakeTopics(t=2), StreamsConfig(**config), Now(0, 10_000))
    draft.check_topology()
    return draft


ALL = pytest.mark.parametrize("make", [consumer_draft, share_draft, streams_draft])
SUBSCRIBED = pytest.mark.parametrize("make", [consumer_draft, share_draft])


@ALL
def test_the_group_changes_only_by_its_records(make: MakeDraft) -> None:
    draft = make()
    group = draft.group
    draft.put_epoch(9, 1)
    assert (draft.group.epoch, group.epoch) == (9, 1)
    for record in draft.records:
        group.apply(record.key, record.value)
    assert group.epoch == 9


@SUBSCRIBED
def test_changed_topics_bump_the_epoch_and_unchanged_ones_do_not(make: MakeDraft) -> None:
    draft = make()
    draft.refresh(subscriptions_changed=False)
    assert draft.group.epoch == 2, "the hash of the topics was unknown"
    count = len(draft.records)
    draft.refresh(subscriptions_changed=False)
    assert len(draft.records) == count
    draft.topics.set("t", 3)
    draft.refresh(subscriptions_changed=False)
    assert draft.group.epoch == 3


@ALL
def test_the_target_is_computed_once_for_an_epoch(make: MakeDraft) -> None:
    draft = make()
    draft.put_epoch(2, 0)
    draft.update_target()
    assert (draft.group.assignment_epoch, draft.group.assignment_timestamp_ms) == (2, 10_000)
    count = len(draft.records)
    draft.update_target()
    assert len(draft.records) == count


@ALL
@pytest.mark.parametrize(("since_ms", "epoch"), [(999, 2), (1_000, 3)])
def test_the_next_target_waits_for_the_interval(make: MakeDraft, since_ms: int, epoch: int) -> None:
    draft = make(assignment_interval_ms=1_000)
    draft.put_epoch(2, 0)
    draft.update_target()
    draft.put_epoch(3, 0)
    draft.now = Now(0, 10_000 + since_ms)
    assert draft.next_epoch == epoch


@ALL
def test_a_removed_member_leaves_three_tombstones(make: MakeDraft) -> None:
    draft = make()
    draft.remove_member("m")
    assert [record.value for record in draft.records] == [None] * 3
    assert draft.group.is_empty


@ALL
@pytest.mark.parametrize(("assigns_empty", "assigned"), [(False, 1), (True, 2)])
def test_the_assignment_of_a_group_that_becomes_empty_gets_its_epoch_since_4_4(
    make: MakeDraft,
    assigns_empty: bool,
    assigned: int,
) -> None:
    draft = make(assigns_empty=assigns_empty)
    draft.remove_member("m")
    draft.bump_after_leave()
    assert (draft.group.epoch, draft.group.assignment_epoch) == (2, assigned)


@ALL
def test_a_session_ends_after_its_timeout(make: MakeDraft) -> None:
    draft = make()
    draft.start_session("m", 7_000)
    assert draft.deadlines.get(DeadlineKind.SESSION, "m") == 7_000
