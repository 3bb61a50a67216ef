from __future__ import annotations

from dataclasses import replace

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
from ottla.broker.groups.consumer_records import AssignedTopic, ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue
from ottla.broker.groups.roster import JoinProtocol
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


def test_its_two_records_hold_all_of_a_member() -> None:
    fields = fields_of_metadata(metadata_of(MEMBER)) | fields_of_assignment(current_assignment_of(MEMBER))
    assert replace(ConsumerMember(member_id="m"), **fields) == MEMBER  # type: ignore[arg-type]  # the fields are the member's own


def test_what_it_has_to_give_back_is_still_its_own() -> None:
    assert set(MEMBER.owned()) == {(A, 0), (B, 1)}


def test_it_is_reconciled_only_when_nothing_is_left_to_give_or_get() -> None:
    assert replace(MEMBER, state=MemberState.STABLE).is_reconciled_to(3)
    assert not replace(MEMBER, state=MemberState.STABLE).is_reconciled_to(4)
    assert not MEMBER.is_reconciled_to(3)


def test_a_state_of_a_newer_coordinator_is_unknown() -> None:
    assert fields_of_assignment(ConsumerGroupCurrentMemberAssignmentValue(state=9))["state"] is MemberState.UNKNOWN


def test_a_topic_listed_twice_has_the_partitions_of_both_and_one_without_any_is_not_there() -> None:
    listed = [AssignedTopic(B, [2]), AssignedTopic(A, [1, 0]), AssignedTopic(B, [1]), AssignedTopic(topic_id("c"), [])]
    assignment = assignment_from(listed)
    assert assignment == {A: frozenset({0, 1}), B: frozenset({1, 2})}
    assert topics_of(assignment) == [AssignedTopic(A, [0, 1]), AssignedTopic(B, [1, 2])]


def test_a_member_without_a_classic_protocol_is_none_of_the_classic_protocol() -> None:
    assert fields_of_metadata(ConsumerGroupMemberMetadataValue())["classic"] is None
    assert metadata_of(replace(MEMBER, classic=None)).classic_member_metadata is None


def test_what_it_is_to_give_back_is_part_of_what_it_has() -> None:
    giving = replace(MEMBER, assigned={A: frozenset({0})}, pending_revocation={A: frozenset({1}), B: frozenset({2})})
    assert giving.has() == {A: frozenset({0, 1}), B: frozenset({2})}
