from __future__ import annotations

import pytest

from ottla.broker.groups.modern import ModernState
from ottla.broker.groups.share_group import SharedTopic, ShareGroup, ShareMember, StatePartitions, record_of, subtracted, united
from ottla.protocol import share_group_log as records
from ottla.protocol.consumer_group_log import AssignedTopic

T, U = b"t" * 16, b"u" * 16


def group_with_member() -> ShareGroup:
    group = ShareGroup("g")
    group.apply(records.ShareGroupMemberMetadataKey("g", "m"), records.ShareGroupMemberMetadataValue("r", "c", "/h", ["t"]))
    group.apply(
        records.ShareGroupCurrentMemberAssignmentKey("g", "m"),
        records.ShareGroupCurrentMemberAssignmentValue(5, 4, 0, [AssignedTopic(T, [0])]),
    )
    return group


def test_a_member_has_the_fields_of_its_two_records() -> None:
    group = group_with_member()
    member = ShareMember(
        member_id="m",
        rack_id="r",
        client_id="c",
        client_host="/h",
        topic_names=frozenset({"t"}),
        epoch=5,
        previous_epoch=4,
        assigned={T: frozenset({0})},
    )
    assert (group.members, group.state) == ({"m": member}, ModernState.STABLE)


def test_a_members_tombstones_remove_it() -> None:
    group = group_with_member()
    group.apply(records.ShareGroupCurrentMemberAssignmentKey("g", "m"), None)
    assert (group.members["m"].epoch, group.members["m"].assigned) == (-1, {})
    group.apply(records.ShareGroupMemberMetadataKey("g", "m"), None)
    group.apply(records.ShareGroupCurrentMemberAssignmentKey("g", "m"), None)
    assert (group.members, group.state) == ({}, ModernState.EMPTY)


def test_the_share_partitions_are_those_of_the_last_record() -> None:
    partitions = StatePartitions({T: SharedTopic("t", frozenset({1}))}, {T: SharedTopic("t", frozenset({0}))}, {U: "u"})
    group = ShareGroup("g")
    key = records.ShareGroupStatePartitionMetadataKey("g")
    group.apply(key, record_of(partitions))
    assert (group.partitions, group.has_partitions_record) == (partitions, True)
    assert group.partitions.without(T) == StatePartitions(deleting={U: "u"})
    group.apply(key, None)
    assert (group.partitions, group.has_partitions_record) == (StatePartitions(), False)


@pytest.mark.parametrize(
    ("initialized", "lacks"),
    [
        ({}, False),
        ({T: SharedTopic("t", frozenset({0}))}, False),
        ({T: SharedTopic("t", frozenset({0, 1}))}, True),
        ({U: SharedTopic("u", frozenset({0}))}, False),
    ],
)
def test_an_assignment_is_lacking_if_subscribed_partitions_with_state_are_not_assigned(
    initialized: dict[bytes, SharedTopic], lacks: bool
) -> None:
    group = group_with_member()
    group.apply(
        records.ShareGroupTargetAssignmentMemberKey("g", "m"), records.ShareGroupTargetAssignmentMemberValue([AssignedTopic(T, [0])])
    )
    group.apply(records.ShareGroupStatePartitionMetadataKey("g"), record_of(StatePartitions(initialized=initialized)))
    assert group.lacks_assignment is lacks


def test_partitions_are_united_and_subtracted_by_topic() -> None:
    one, other = {T: SharedTopic("t", frozenset({0}))}, {T: SharedTopic("later", frozenset({1})), U: SharedTopic("u", frozenset({0}))}
    both = united(one, other)
    assert both == {T: SharedTopic("t", frozenset({0, 1})), U: SharedTopic("u", frozenset({0}))}
    assert subtracted(both, {T: [0], U: [0]}) == {T: SharedTopic("t", frozenset({1}))}
