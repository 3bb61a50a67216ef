from __future__ import annotations

from dataclasses import replace

from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.consumer_member import (
    ClassicMember,
    ConsumerMember,
    MemberState,
    assignment_from,
    current_assignment_of,
    fields_of_assignment,
    fields_of_metadata,
    metadata_of,
    topics_of,
)
from ottla.protocol.consumer_group_log import AssignedTopic, ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue
from tests.support.consumer_groups import topic_id

A, B = topic_id("a"), topic_id("b")
MEMBER = ConsumerMember(
    member_id="m",
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    topic_names=frozenset({"a"}),
    topic_regex="b.*",
    rebalance_timeout_ms=5,
    server_assignor="range",
    classic=ClassicMember(10_000, (JoinProtocol("range", b"x"),)),
    epoch=3,
    previous_epoch=2,
    state=MemberState.UNREVOKED_PARTITIONS,
    assigned={A: frozenset({0})},
    pending_revocation={B: frozenset({1})},
    epochs={(A, 0): 2, (B, 1): 1},
)


def test_a_members_two_records_contain_its_whole_state() -> None:
    fields = fields_of_metadata(metadata_of(MEMBER)) | fields_of_assignment(current_assignment_of(MEMBER))
    assert replace(ConsumerMember(member_id="m"), **fields) == MEMBER  # type: ignore[arg-type]  # the fields are the member's own


def test_revoking_partitions_still_belong_to_the_member() -> None:
    assert set(MEMBER.held_partitions()) == {(A, 0), (B, 1)}


def test_a_member_is_reconciled_when_nothing_is_to_be_revoked_or_assigned() -> None:
    assert replace(MEMBER, state=MemberState.STABLE).is_reconciled_to(3)
    assert not replace(MEMBER, state=MemberState.STABLE).is_reconciled_to(4)
    assert not MEMBER.is_reconciled_to(3)


def test_a_state_of_a_newer_coordinator_is_unknown() -> None:
    assert fields_of_assignment(ConsumerGroupCurrentMemberAssignmentValue(state=9))["state"] is MemberState.UNKNOWN


def test_duplicate_topics_are_merged_and_empty_ones_dropped() -> None:
    listed = [AssignedTopic(B, [2]), AssignedTopic(A, [1, 0]), AssignedTopic(B, [1]), AssignedTopic(topic_id("c"), [])]
    assignment = assignment_from(listed)
    assert assignment == {A: frozenset({0, 1}), B: frozenset({1, 2})}
    assert topics_of(assignment) == [AssignedTopic(A, [0, 1]), AssignedTopic(B, [1, 2])]


def test_a_member_without_classic_metadata_is_not_classic() -> None:
    assert fields_of_metadata(ConsumerGroupMemberMetadataValue())["classic"] is None
    assert metadata_of(replace(MEMBER, classic=None)).classic_member_metadata is None


def test_revoking_partitions_count_as_owned() -> None:
    giving = replace(MEMBER, assigned={A: frozenset({0})}, pending_revocation={A: frozenset({1}), B: frozenset({2})})
    assert giving.held() == {A: frozenset({0, 1}), B: frozenset({2})}
