"""A member of a consumer group (KIP-848), as a value: a change makes a new one.

Rules that hold here:

* `assigned` is what the member was told to have; `pending_revocation` what it had and was told to give back, until it says so. Both
  are its own: nobody else is given either. `epochs` says since which group epoch each of them is: an offset that the member commits with
  an older epoch than its own is as good as ever for a partition that it had in that epoch already (KIP-1251).
* A member whose epoch is -2 is a static one that left for a while; what it has waits for it.
* `classic` is None for a member that speaks the protocol of KIP-848 itself. Else it speaks the classic protocol, and the coordinator
  plays a classic group to it (`consumer_classic`).

Source: KAFKA ConsumerGroupMember, MemberState.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ottla.broker.groups.consumer_records import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    OwnedTopic,
)
from ottla.broker.groups.roster import JoinProtocol

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; no topic without partitions."""

Epochs = Mapping[tuple[bytes, int], int]
"""Group epochs by topic id and partition."""


class MemberState(IntEnum):
    """Where a member stands on its way to the target assignment; the numbers are the record's."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """What a classic group would know of the member; its session timeout in milliseconds."""

    session_timeout_ms: int
    protocols: tuple[JoinProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member. `rebalance_timeout_ms` is how long it may take to give partitions back."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMember | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    pending_revocation: Assignment = field(default_factory=dict)
    epochs: Epochs = field(default_factory=dict)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def has(self) -> Assignment:
        """All that it has, with what it is to give back."""
        topics = self.assigned.keys() | self.pending_revocation.keys()
        none: frozenset[int] = frozenset()
        return {topic_id: self.assigned.get(topic_id, none) | self.pending_revocation.get(topic_id, none) for topic_id in topics}

    def owned(self) -> Iterable[tuple[bytes, int]]:
        """Every partition that nobody else may be given."""
        for assignment in (self.assigned, self.pending_revocation):
            for topic_id, partitions in assignment.items():
                for partition in partitions:
                    yield topic_id, partition


def fields_of_metadata(value: ConsumerGroupMemberMetadataValue) -> dict[str, object]:
    """What a record of type 5 says of a member, as fields of ConsumerMember. A member of the classic protocol offers at least one."""
    classic = value.classic_member_metadata
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topic_names": frozenset(value.subscribed_topic_names),
        "topic_regex": value.subscribed_topic_regex or "",
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "server_assignor": value.server_assignor,
        "classic": None
        if classic is None or not classic.supported_protocols
        else ClassicMember(
            classic.session_timeout_ms, tuple(JoinProtocol(one.name, bytes(one.metadata)) for one in classic.supported_protocols)
        ),
    }


def metadata_of(member: ConsumerMember) -> ConsumerGroupMemberMetadataValue:
    """The record of type 5."""
    classic = member.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(classic.session_timeout_ms, [ClassicProtocol(one.name, one.metadata) for one in classic.protocols]),
    )


def fields_of_assignment(value: ConsumerGroupCurrentMemberAssignmentValue) -> dict[str, object]:
    """What a record of type 8 says of a member, as fields of ConsumerMember."""
    known = {state.value for state in MemberState}
    return {
        "epoch": value.member_epoch,
        "previous_epoch": value.previous_member_epoch,
        "state": MemberState(value.state) if value.state in known else MemberState.UNKNOWN,
        "assigned": assignment_from(value.assigned_partitions),
        "pending_revocation": assignment_from(value.partitions_pending_revocation),
        "epochs": _epochs_from([*value.assigned_partitions, *value.partitions_pending_revocation], max(value.member_epoch, 0)),
    }


def current_assignment_of(member: ConsumerMember) -> ConsumerGroupCurrentMemberAssignmentValue:
    """The record of type 8."""
    return ConsumerGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        member.state,
        _owned_topics_of(member, member.assigned),
        _owned_topics_of(member, member.pending_revocation),
    )


def epochs_of(assignment: Assignment, epoch: int) -> Epochs:
    """All of it assigned in one epoch."""
    return {(topic_id, partition): epoch for topic_id, partitions in assignment.items() for partition in partitions}


def assignment_from(topics: Iterable[AssignedTopic | OwnedTopic]) -> Assignment:
    """As a record or a request lists it; a topic that is listed twice has the partitions of both."""
    assignment: dict[bytes, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions:
            topic_id = bytes(topic.topic_id)
            assignment[topic_id] = assignment.get(topic_id, frozenset()) | frozenset(topic.partitions)
    return assignment


def topics_of(assignment: Assignment) -> list[AssignedTopic]:
    """As a record lists it, sorted."""
    return [AssignedTopic(topic_id, sorted(partitions)) for topic_id, partitions in sorted(assignment.items())]


def _epochs_from(topics: Iterable[OwnedTopic], default: int) -> Epochs:
    return {
        (bytes(topic.topic_id), partition): epoch
        for topic in topics
        for partition, epoch in zip(topic.partitions, _epochs_of_topic(topic, default), strict=True)
    }


def _epochs_of_topic(topic: OwnedTopic, default: int) -> list[int]:
    """As many as there are partitions, also where the record has none, or too few."""
    epochs = topic.assignment_epochs
    return epochs if epochs is not None and len(epochs) == len(topic.partitions) else [default] * len(topic.partitions)


def _owned_topics_of(member: ConsumerMember, assignment: Assignment) -> list[OwnedTopic]:
    return [
        OwnedTopic(topic.topic_id, topic.partitions, [member.epochs[topic.topic_id, partition] for partition in topic.partitions])
        for topic in topics_of(assignment)
    ]
