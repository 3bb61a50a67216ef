"""A member of a consumer group (KIP-848), as an immutable value.

Invariants:

* `assigned` has the partitions that the member was assigned; `pending_revocation` those that it must revoke and has not confirmed yet.
  No other member gets partitions of either. `epochs` has the group epoch in which each of them was assigned: an offset committed with an
  older epoch is valid for a partition that the member already had in that epoch (KIP-1251).
* A member with epoch -2 is a static one that left temporarily; its partitions are reserved for it.
* `classic` is None for a member that uses the protocol of KIP-848. Otherwise it uses the classic protocol, and the coordinator emulates a
  classic group for it (`consumer_classic`).

Source: Kafka's ConsumerGroupMember, MemberState.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from ottla.broker.groups.classic_members import JoinProtocol
from ottla.protocol.consumer_group_log import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    OwnedTopic,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

Assignment = Mapping[bytes, frozenset[int]]
"""Partition numbers by topic id. A topic without partitions has no entry."""

Epochs = Mapping[tuple[bytes, int], int]
"""The group epoch in which each partition was assigned, by (topic id, partition)."""


class MemberState(IntEnum):
    """A member's state on the way to its target assignment (Kafka's MemberState). The numbers are those of the field `State` in
    ConsumerGroupCurrentMemberAssignmentValue.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """The additional state of a consumer group member that uses the classic protocol: the protocols that it supports, and its session
    timeout in ms.
    """

    session_timeout_ms: int
    protocols: tuple[JoinProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member of a consumer group. `rebalance_timeout_ms` limits the time for revoking partitions."""

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

    def held(self) -> Assignment:
        """Return all partitions that the member holds, by topic id: those assigned to it and those that it must still revoke."""
        topics = self.assigned.keys() | self.pending_revocation.keys()
        none: frozenset[int] = frozenset()
        return {topic_id: self.assigned.get(topic_id, none) | self.pending_revocation.get(topic_id, none) for topic_id in topics}

    def held_partitions(self) -> Iterable[tuple[bytes, int]]:
        """Yield (topic id, partition) of every partition that the member holds, so that no other member may get it: those assigned to it
        and those that it must still revoke.
        """
        for assignment in (self.assigned, self.pending_revocation):
            for topic_id, partitions in assignment.items():
                for partition in partitions:
                    yield topic_id, partition


class _WithEpochs(Protocol):
    """A topic in a current assignment record: its partitions, with the group epoch in which each was assigned."""

    @property
    def partitions(self) -> list[int]: ...
    @property
    def assignment_epochs(self) -> list[int] | None: ...


def fields_of_metadata(value: ConsumerGroupMemberMetadataValue) -> dict[str, object]:
    """Return keyword arguments for ConsumerMember: the fields that a member metadata record (type 5) determines. A member whose classic
    metadata lists no protocol counts as a consumer protocol member."""
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
    """Return the value of the record (type 5) that stores the member's metadata."""
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
    """Return keyword arguments for ConsumerMember: the fields that a current assignment record (type 8) determines."""
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
    """Return the value of the record (type 8) that stores the member's current assignment."""
    return ConsumerGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        member.state,
        _owned_topics_of(member, member.assigned),
        _owned_topics_of(member, member.pending_revocation),
    )


def epochs_of(assignment: Assignment, epoch: int) -> Epochs:
    """Return a mapping that has `epoch` as the epoch of every partition of the assignment."""
    return {(topic_id, partition): epoch for topic_id, partitions in assignment.items() for partition in partitions}


def assignment_from(topics: Iterable[AssignedTopic | OwnedTopic]) -> Assignment:
    """Return the assignment that a record or request lists. A topic that is listed several times gets the partitions of all its entries."""
    assignment: dict[bytes, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions:
            topic_id = bytes(topic.topic_id)
            assignment[topic_id] = assignment.get(topic_id, frozenset()) | frozenset(topic.partitions)
    return assignment


def topics_of(assignment: Assignment) -> list[AssignedTopic]:
    """Return the assignment in the form of a record: a list of topics with their partitions, sorted."""
    return [AssignedTopic(topic_id, sorted(partitions)) for topic_id, partitions in sorted(assignment.items())]


def _epochs_from(topics: Iterable[OwnedTopic], default: int) -> Epochs:
    return {
        (bytes(topic.topic_id), partition): epoch
        for topic in topics
        for partition, epoch in zip(topic.partitions, epochs_per_partition(topic, default), strict=True)
    }


def epochs_per_partition(topic: _WithEpochs, default: int) -> list[int]:
    """Return the epoch in which each of the topic's partitions was assigned, in their order. If the record has no epochs or a wrong number
    of them, it is `default` for every partition."""
    epochs = topic.assignment_epochs
    return epochs if epochs is not None and len(epochs) == len(topic.partitions) else [default] * len(topic.partitions)


def _owned_topics_of(member: ConsumerMember, assignment: Assignment) -> list[OwnedTopic]:
    return [
        OwnedTopic(topic.topic_id, topic.partitions, [member.epochs[topic.topic_id, partition] for partition in topic.partitions])
        for topic in topics_of(assignment)
    ]
