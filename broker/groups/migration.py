"""A classic group becomes a consumer group under the same id and back, while its members go on (KIP-848 "Migration").

Rules that hold here:

* The first member of the consumer protocol that joins a classic group of consumers makes it a consumer group. The others stay, as members
  of the classic protocol with what they were last assigned; those that wait in a join or a sync are told to join again. A group whose
  assignor hands out bytes of its own stays as it is: they would be lost.
* When the last member of the consumer protocol leaves or is put out, those that stay form a classic group again, whose generation is the
  group's epoch, and rebalance. If a static member comes back in the classic protocol and is the last to change, nobody has to rebalance
  where all have what they are meant to have, and that is not out of date. No assignment is computed for a group that ends.
* The records of the old kind are deleted in the batch that writes the new ones, so a crash leaves one group or the other.
* An empty group of one kind makes place for one of the other, whatever `group.consumer.migration.policy` says; its offsets stay.

Source: KAFKA GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup, ConsumerGroup.fromClassicGroup,
ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups import consumer_records as records
from ottla.broker.groups.classic import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_draft import Draft
from ottla.broker.groups.consumer_member import Assignment, ClassicMember, ConsumerMember, epochs_of
from ottla.broker.groups.consumer_records import ConsumerKey
from ottla.broker.groups.embedded_protocol import carries_user_data, read_assignment, read_subscription, write_assignment
from ottla.broker.groups.group_records import GroupMetadataKey, GroupMetadataValue, GroupRecord
from ottla.broker.groups.roster import Member, Roster
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError


def may_upgrade(group: ClassicGroup, draft: Draft) -> bool:
    """Whether a member of the consumer protocol may join this classic group that has members."""
    return draft.config.allows_upgrade and group.protocol_type == CONSUMER_PROTOCOL_TYPE and len(group.members) <= draft.config.max_size


def upgrade(group: ClassicGroup, draft: Draft) -> None:
    """Make the draft's group, which is new, of the classic one. Raises Rejected(GROUP_ID_NOT_FOUND) when its members cannot be read, or
    have what no consumer group can give them."""
    cannot = f"Cannot upgrade the classic group {group.group_id} to consumer group because"
    try:
        if any(carries_user_data(member.assignment) for member in group.members):
            raise Rejected(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"{cannot} an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
                "before re-attempting the upgrade.",
            )
        members = [_consumer_member(group, member, draft) for member in group.members]
    except ProtocolError as error:
        raise Rejected(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"{cannot} the embedded consumer protocol is malformed: {error}.",
        ) from error
    draft.end_classic_group()
    for member in members:
        draft.put_member(member)
    draft.put_epoch(group.generation, draft.metadata_hash())
    taken: set[tuple[bytes, int]] = set()
    for member in members:
        assigned = _without(member.assigned, taken)
        taken.update((topic_id, partition) for topic_id, partitions in assigned.items() for partition in partitions)
        draft.put_target(member.member_id, assigned)
        draft.put_assignment(replace(member, assigned=assigned, epochs=epochs_of(assigned, group.generation)))
        draft.keep_session(member)
    draft.put_unknown_target_epoch(group.generation)


def may_downgrade(draft: Draft) -> bool:
    """Whether those who are left in the draft's group are classic members that may have a classic group again."""
    members = draft.group.members.values()
    fits = 0 < len(members) <= draft.config.classic_max_size
    return draft.config.allows_downgrade and fits and all(member.classic is not None for member in members)


def downgrade(draft: Draft, *, has_to_rebalance: bool) -> None:
    """End the consumer group, and write the classic one of its members. Nothing but the bump is decided when they cannot be read."""
    try:
        value = _classic_group(draft)
    except ProtocolError:
        draft.bump_after_leave()
        return
    draft.records += [*end_of(draft.group), GroupRecord(GroupMetadataKey(draft.group_id), value)]
    draft.downgraded = has_to_rebalance


def end_of(group: ConsumerGroup) -> list[GroupRecord]:
    """The records that delete a consumer group, that of its epoch last."""
    group_id = group.group_id
    keys: list[ConsumerKey] = []
    for member_id in sorted(group.members):
        keys.append(records.ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id))
        keys.append(records.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id))
        keys.append(records.ConsumerGroupMemberMetadataKey(group_id, member_id))
    keys += [records.ConsumerGroupRegularExpressionKey(group_id, regex) for regex in sorted(group.resolved)]
    keys.append(records.ConsumerGroupTargetAssignmentMetadataKey(group_id))
    if group.is_backed_by_4_0:
        keys.append(records.ConsumerGroupPartitionMetadataKey(group_id))
    keys.append(records.ConsumerGroupMetadataKey(group_id))
    return [GroupRecord(key, None) for key in keys]


def _consumer_member(group: ClassicGroup, member: Member, draft: Draft) -> ConsumerMember:
    chosen = group.protocol_name or member.protocols[0].name
    subscription = read_subscription(member.metadata(chosen))
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMember(member.session_timeout_ms, member.protocols),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=read_assignment(member.assignment, draft.topics),
    )


def _without(assignment: Assignment, taken: set[tuple[bytes, int]]) -> Assignment:
    """What nobody has yet: a leader that gave a partition twice must not be believed the second time."""
    left = {topic_id: frozenset(p for p in partitions if (topic_id, p) not in taken) for topic_id, partitions in assignment.items()}
    return {topic_id: partitions for topic_id, partitions in left.items() if partitions}


def _classic_group(draft: Draft) -> GroupMetadataValue:
    """The group's record with everybody's assignment. Raises ProtocolError."""
    roster = Roster()
    for member in draft.group.members.values():
        assert member.classic is not None, "only members of the classic protocol form a classic group"
        written = write_assignment(member.assigned, member.classic.protocols[0].metadata, draft.topics)
        roster.add(
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocols=member.classic.protocols,
                assignment=written,
            )
        )
    protocol = roster.select_protocol()
    return GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=draft.group.epoch,
        protocol=protocol,
        leader=roster.leader_id,
        current_state_timestamp=draft.now.wall_ms,
        members=[member.written(protocol, member.assignment) for member in roster],
    )
