"""Converts a classic group with members to a consumer group under the same id, and back (KIP-848 "Migration").

Invariants:

* The first consumer protocol member that joins a classic group of consumers converts it. The other members stay, as classic protocol
  members with their last assignments; those waiting in a join or sync must rejoin. A group whose assignor uses user data is not
  converted, because the user data would be lost.
* When the last consumer protocol member leaves or is removed, the others become a classic group again, whose generation is the group's
  epoch, and rebalance. If the last consumer protocol member is a static one that rejoins with the classic protocol, the classic group
  rebalances only if a member has not reached its target assignment or the target assignment is older than the group epoch. The
  conversion never computes a new target assignment.
* The old group's records are deleted in the batch that writes the new ones, so a crash leaves one group or the other.
* An empty group of one type is replaced by one of the other, whatever `group.consumer.migration.policy` says; its offsets stay.

Source: Kafka's GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup, ConsumerGroup.fromClassicGroup,
ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.classic import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from ottla.broker.groups.classic_members import ClassicMembers, Member
from ottla.broker.groups.consumer_group_update import ConsumerGroupUpdate
from ottla.broker.groups.consumer_member import Assignment, ClassicMember, ConsumerMember, epochs_of
from ottla.broker.groups.embedded_protocol import carries_user_data, read_assignment, read_subscription, write_assignment
from ottla.broker.groups.group_records import GroupMetadataKey, GroupMetadataValue, GroupRecord
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError


def may_upgrade(group: ClassicGroup, update: ConsumerGroupUpdate) -> bool:
    """Return whether a consumer protocol member may join this classic group that has members, which converts it to a consumer group: the
    migration policy allows it, the members are consumers, and their number does not exceed the consumer groups' maximum."""
    return update.config.allows_upgrade and group.protocol_type == CONSUMER_PROTOCOL_TYPE and len(group.members) <= update.config.max_size


def upgrade(group: ClassicGroup, update: ConsumerGroupUpdate) -> None:
    """Write the members and assignments of the classic group to the update's new consumer group, and the tombstone of the classic group.

    Raises Rejected(GROUP_ID_NOT_FOUND) if subscriptions or assignments cannot be decoded, or if an assignment has user data.
    """
    cannot = f"Cannot upgrade the classic group {group.group_id} to consumer group because"
    try:
        if any(carries_user_data(member.assignment) for member in group.members):
            raise Rejected(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"{cannot} an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
                "before re-attempting the upgrade.",
            )
        members = [_consumer_member(group, member, update) for member in group.members]
    except ProtocolError as error:
        raise Rejected(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"{cannot} the embedded consumer protocol is malformed: {error}.",
        ) from error
    update.end_classic_group()
    for member in members:
        update.put_member(member)
    update.put_epoch(group.generation, update.metadata_hash())
    taken: set[tuple[bytes, int]] = set()
    for member in members:
        assigned = _without(member.assigned, taken)
        taken.update((topic_id, partition) for topic_id, partitions in assigned.items() for partition in partitions)
        update.put_target(member.member_id, assigned)
        update.put_assignment(replace(member, assigned=assigned, epochs=epochs_of(assigned, group.generation)))
        update.keep_session(member)
    update.put_unknown_target_epoch(group.generation)


def may_downgrade(update: ConsumerGroupUpdate) -> bool:
    """Return whether the members of the update's group may become a classic group: the migration policy allows it, all of them use the
    classic protocol, and there is at least one, but no more than a classic group may have."""
    members = update.group.members.values()
    fits = 0 < len(members) <= update.config.classic_max_size
    return update.config.allows_downgrade and fits and all(member.classic is not None for member in members)


def downgrade(update: ConsumerGroupUpdate, *, has_to_rebalance: bool) -> None:
    """Write tombstones for the consumer group, and the record of the classic group. `has_to_rebalance` is whether the classic group must
    then rebalance. If the members' subscriptions cannot be decoded, the consumer group stays and only its epoch is bumped."""
    try:
        value = _classic_group(update)
    except ProtocolError:
        update.bump_after_leave()
        return
    update.records += [*update.group.tombstones(), GroupRecord(GroupMetadataKey(update.group_id), value)]
    update.downgraded = has_to_rebalance


def _consumer_member(group: ClassicGroup, member: Member, update: ConsumerGroupUpdate) -> ConsumerMember:
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
        assigned=read_assignment(member.assignment, update.topics),
    )


def _without(assignment: Assignment, taken: set[tuple[bytes, int]]) -> Assignment:
    """Return the partitions of `assignment` that are not in `taken`, because a classic group's leader may have assigned a partition to two
    members."""
    left = {topic_id: frozenset(p for p in partitions if (topic_id, p) not in taken) for topic_id, partitions in assignment.items()}
    return {topic_id: partitions for topic_id, partitions in left.items() if partitions}


def _classic_group(update: ConsumerGroupUpdate) -> GroupMetadataValue:
    """Return the record of the classic group that the update's group becomes, with all assignments. Raises ProtocolError if a subscription
    has an unknown version."""
    members = ClassicMembers()
    for member in update.group.members.values():
        assert member.classic is not None, "only members of the classic protocol form a classic group"
        written = write_assignment(member.assigned, member.classic.protocols[0].metadata, update.topics)
        members.add(
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
    protocol = members.select_protocol()
    return GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=update.group.epoch,
        protocol=protocol,
        leader=members.leader_id,
        current_state_timestamp=update.now.wall_ms,
        members=[member.to_record(protocol, member.assignment) for member in members],
    )
